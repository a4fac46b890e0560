"""The application's memory as operations take it: any contiguous buffer in host memory, in place."""

from typing import Any

import numpy as np

from amoeba.core.buffers import address_of, view_of
from amoeba.core.errors import FabricError
from amoeba.openucx.ucp.status import ucs_error_of, wrong_type

__all__ = ["Array", "bytes_view"]

_PLAIN = (bytes, bytearray, memoryview, np.ndarray, np.generic)


def bytes_view(buffer: Any, *, writable: bool = False, name: str = "buffer") -> memoryview:
    """Return a view of all bytes of a buffer.

    Raises INVALID_PARAM for a buffer with gaps, and for a read-only one if ``writable``. Accepts also objects with
    ``__array_interface__`` alone, or DLPack of host memory.
    """
    if isinstance(buffer, Array):
        buffer = buffer.obj
    elif not isinstance(buffer, _PLAIN):
        buffer = _buffer_of(buffer, name)
    try:
        return view_of(buffer, writable=writable, name=name)
    except FabricError as error:
        raise ucs_error_of(error) from error


def _buffer_of(given: Any, name: str) -> Any:
    try:
        return memoryview(given)
    except TypeError:
        pass
    if hasattr(given, "__cuda_array_interface__"):
        raise wrong_type(name, "host memory, as no NIC here reaches a GPU's", given)
    if hasattr(given, "__array_interface__"):
        return np.asarray(given)
    if hasattr(given, "__dlpack__"):
        return np.from_dlpack(given)
    raise wrong_type(name, "a buffer", given)


class Array:
    """A buffer with NumPy's attributes: ``nbytes``, ``ptr``, ``shape``, ``strides``, ``itemsize``.

    Raises INVALID_PARAM for a buffer with gaps, and for objects that are no buffer in host memory.
    """

    __slots__ = ("itemsize", "nbytes", "obj", "ptr", "readonly", "shape", "strides")

    cuda = False
    c_contiguous = True

    def __init__(self, obj: Any) -> None:
        view = bytes_view(obj, name="obj")
        self.obj = view if not isinstance(obj, np.ndarray) else obj
        self.ptr = address_of(view)
        """Address of the first byte; 0 for an empty buffer."""
        self.nbytes = view.nbytes
        self.itemsize = view.itemsize
        self.shape: tuple[int, ...] = tuple(view.shape or ())
        self.strides: tuple[int, ...] = tuple(view.strides or ())
        self.readonly = view.readonly

    @property
    def contiguous(self) -> bool:
        """Whether the buffer is contiguous: always true, as other buffers are refused."""
        return self.c_contiguous
