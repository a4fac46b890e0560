"""Arguments that cannot be meant, and two NICs of any kinds to make such calls on."""

import ctypes
from contextlib import contextmanager

import numpy as np
from amoeba import (
    Caps,
    Datatype,
    MrAccess,
    Op,
    open_cluster,
)

PAIRS = (("model", "model"), ("rtl", "rtl"), ("model", "rtl"))


@contextmanager
def two_nics(kinds, parameters):
    """Two NICs, also of two kinds, whose accesses the host never refuses."""
    with open_cluster(kinds, parameters, rtl_options={"host_latency": 40}) as opened:
        yield opened
        assert [fault for device in opened.devices for fault in device.faults()] == []



U64 = Datatype.FI_UINT64
ONE = np.uint64(1)
WORDS = 64
SUM = Op.FI_SUM


def words(*values):
    return np.array(values or (0,), np.uint64)


NO_NUMBERS = {"a float": 8.0, "a boolean": True, "bytes": bytes(8), "nothing": None, "an Op": Op.FI_SUM}
NO_64_BITS = {"negative": -1, "too long": 1 << 64, "far too long": 1 << 5000}


REFERENCES = {
    "objects": lambda: np.array([1, 2], object),
    "objects in structures": lambda: np.zeros(2, [("number", "u8"), ("thing", object)]),
    "a view of objects": lambda: memoryview(np.array([1, 2], object)),
    "objects of ctypes": lambda: (ctypes.py_object * 2)(1, 2),
    "strings of ctypes": lambda: (ctypes.c_char_p * 2)(),
}


WRONG_FLAGS = (Caps.FI_FENCE, MrAccess.FI_READ, 1.0, "FI_MORE", None, True)
