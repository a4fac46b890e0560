"""libfabric's objects and calls."""
