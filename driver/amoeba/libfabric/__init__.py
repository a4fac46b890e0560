"""libfabric on the engine: ``objects``, ``calls`` (public as :mod:`amoeba.fi`), ``asyncio`` (:mod:`amoeba.aio`) and
``provider``, the C library. :mod:`amoeba` has the objects' names.
"""
