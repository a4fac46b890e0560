"""libfabric's objects for asyncio programs, for :mod:`amoeba.aio`."""
