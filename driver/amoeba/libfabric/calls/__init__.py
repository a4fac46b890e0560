"""libfabric's calls under C's names, for :mod:`amoeba.fi`: a file for each manual page or group of calls."""
