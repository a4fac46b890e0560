"""Atomics that a build executes, for the capability registers, the initiator and the target."""

from amoeba_model.atomic.matrix import COMPARE_OPS, is_valid
from amoeba_model.opcodes import Form, Op
from amoeba_model.parameters import NicParameters

__all__ = ["Capabilities", "fetching_form"]


class Capabilities:
    """The cells of the atomic matrix that the parameters leave."""

    def __init__(self, parameters: NicParameters) -> None:
        self._masks = {
            form: [
                sum(1 << datatype for datatype in parameters.datatypes if is_valid(op, datatype, form))
                if op in parameters.ops
                else 0
                for op in Op
            ]
            for form in Form
        }

    def mask(self, form: Form, op: int) -> int:
        """Datatypes (bit = libfabric's number) on which ``op`` is executed in ``form``; 0 for unknown ops."""
        masks = self._masks[form]
        return masks[op] if op < len(masks) else 0

    def executes(self, form: Form, op: int, datatype: int) -> bool:
        """Whether the cell exists in this build; False for unknown numbers."""
        return bool(self.mask(form, op) >> datatype & 1)


def fetching_form(op: int) -> Form:
    """Return the form of a FETCHING_ATOMIC with this operation."""
    return Form.COMPARE if op in COMPARE_OPS else Form.FETCH
