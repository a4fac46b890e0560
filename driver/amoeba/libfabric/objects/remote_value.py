"""Values read from a remote array, and the in-place operators that become atomic updates when they are set back."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["InPlaceOperators", "Place", "RemoteValue", "Update"]


class InPlaceOperators:
    """The in-place operators of Python, each by its NumPy function and its sign."""

    def _in_place(self, function: np.ufunc, sign: str, operand: Any) -> Any:
        raise NotImplementedError

    def __iadd__(self, operand: Any) -> Any:
        return self._in_place(np.add, "+=", operand)

    def __isub__(self, operand: Any) -> Any:
        return self._in_place(np.subtract, "-=", operand)

    def __imul__(self, operand: Any) -> Any:
        return self._in_place(np.multiply, "*=", operand)

    def __iand__(self, operand: Any) -> Any:
        return self._in_place(np.bitwise_and, "&=", operand)

    def __ior__(self, operand: Any) -> Any:
        return self._in_place(np.bitwise_or, "|=", operand)

    def __ixor__(self, operand: Any) -> Any:
        return self._in_place(np.bitwise_xor, "^=", operand)

    def __itruediv__(self, operand: Any) -> Any:
        return self._in_place(np.true_divide, "/=", operand)

    def __ifloordiv__(self, operand: Any) -> Any:
        return self._in_place(np.floor_divide, "//=", operand)

    def __imod__(self, operand: Any) -> Any:
        return self._in_place(np.remainder, "%=", operand)

    def __ipow__(self, operand: Any) -> Any:
        return self._in_place(np.power, "**=", operand)

    def __ilshift__(self, operand: Any) -> Any:
        return self._in_place(np.left_shift, "<<=", operand)

    def __irshift__(self, operand: Any) -> Any:
        return self._in_place(np.right_shift, ">>=", operand)

    def __imatmul__(self, operand: Any) -> Any:
        return self._in_place(np.matmul, "@=", operand)


class Place(NamedTuple):
    """Elements of one remote array, as its indices name them."""

    array: object
    offsets: npt.NDArray[np.uint64]
    """Of each stretch of consecutive elements, in bytes."""
    shape: tuple[int, ...]
    run: int
    """Elements of a stretch."""

    def is_at(self, other: "Place") -> bool:
        """Return whether both places are the same elements of the same array, in the same shape."""
        return (
            self.array is other.array
            and (self.shape, self.run) == (other.shape, other.run)
            and np.array_equal(self.offsets, other.offsets)
        )


class Update(NamedTuple):
    """One in-place operator on what a place had, not executed yet."""

    place: Place
    function: np.ufunc
    sign: str
    operand: Any


class RemoteValue(InPlaceOperators, np.ndarray[Any, Any]):
    """Elements of a remote array as they were when they were read: a read-only NumPy array.

    One element is an array without dimensions, which is used as a NumPy scalar is: it has a hash, and converts to
    Python's numbers. Arithmetic, comparisons and NumPy's functions give plain NumPy values.

    ``array[key] += operand`` reads a value, applies ``+=`` to it, and sets the result. The result remembers the
    operator, so that setting it back updates the peer's elements atomically. A value with a name of its own stays
    local: ``total += operand`` names a new value, and changes no peer's memory.
    """

    _place: Place | None
    _update: Update | None

    @classmethod
    def of(cls, values: npt.ArrayLike, *, place: Place | None = None, update: Update | None = None) -> "RemoteValue":
        """Make a value of what was read at a place, or of the result of an operator."""
        value = np.asarray(values).view(cls)
        value.flags.writeable = False
        value._place, value._update = place, update
        return value

    def __array_finalize__(self, source: object) -> None:
        self._place = self._update = None

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = {
            name: tuple(map(_plain, value)) if name == "out" else _plain(value) for name, value in kwargs.items()
        }
        return getattr(ufunc, method)(*map(_plain, inputs), **plain)

    def _in_place(self, function: np.ufunc, sign: str, operand: Any) -> Any:
        if self.flags.writeable:  # what NumPy made of a value, as astype() does
            return function(self, operand, out=self).view(RemoteValue)
        kept = operand.copy() if isinstance(operand, np.ndarray) else operand
        update = None if self._place is None else Update(self._place, function, sign, kept)
        return RemoteValue.of(function(self, operand), update=update)

    def __setitem__(self, key: Any, values: Any) -> None:
        if not self.flags.writeable:
            raise ValueError(
                "values read from a remote array are read-only: set elements by one pair of brackets, "
                "array[row, column] = value, or change a copy()"
            )
        super().__setitem__(key, values)

    def copy(self, order: Any = "C") -> npt.NDArray[Any]:  # type: ignore[override]
        """Return a plain NumPy array of one's own, which may be changed."""
        return np.array(self, order=order)

    def __copy__(self) -> npt.NDArray[Any]:  # type: ignore[override]
        return self.copy()

    def __deepcopy__(self, memo: object) -> npt.NDArray[Any]:  # type: ignore[override]
        return self.copy()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return np.array, (_plain(self),)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(_plain(self)[()])

    def __round__(self, digits: int | None = None) -> Any:
        return round(_plain(self)[()], digits)

    def __repr__(self) -> str:
        return repr(_plain(self)[()])


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, RemoteValue) else value
