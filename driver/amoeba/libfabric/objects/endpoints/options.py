"""Options of endpoints and their contexts: fi_getopt and fi_setopt of fi_endpoint(3)."""

from collections.abc import Callable
from typing import Any, ClassVar

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.libfabric.objects.connections import CM_DATA_SIZE
from amoeba.libfabric.objects.constants import EndpointOption, OptionLevel
from amoeba.transport.rings import INJECT_SIZE

__all__ = ["RECEIVE_OPTIONS", "TRANSMIT_OPTIONS", "HasOptions"]

TRANSMIT_OPTIONS = frozenset(
    {
        EndpointOption.FI_OPT_TX_SIZE,
        EndpointOption.FI_OPT_MAX_MSG_SIZE,
        EndpointOption.FI_OPT_MAX_TAGGED_SIZE,
        EndpointOption.FI_OPT_MAX_RMA_SIZE,
        EndpointOption.FI_OPT_MAX_ATOMIC_SIZE,
        EndpointOption.FI_OPT_INJECT_MSG_SIZE,
        EndpointOption.FI_OPT_INJECT_TAGGED_SIZE,
        EndpointOption.FI_OPT_INJECT_RMA_SIZE,
        EndpointOption.FI_OPT_INJECT_ATOMIC_SIZE,
    }
)
"""Of what operations are posted through."""
RECEIVE_OPTIONS = frozenset({EndpointOption.FI_OPT_MIN_MULTI_RECV, EndpointOption.FI_OPT_RX_SIZE})
"""Of what receives."""


def _max_rma_size(owner: Any) -> int:
    size: int = owner._max_rma_size
    return max(0, size)


def _inject_rma_size(owner: Any) -> int:
    return min(INJECT_SIZE, _max_rma_size(owner))


_READERS: dict[EndpointOption, Callable[[Any], int]] = {
    EndpointOption.FI_OPT_MIN_MULTI_RECV: lambda owner: owner._receiver.min_multi_recv,
    EndpointOption.FI_OPT_CM_DATA_SIZE: lambda owner: CM_DATA_SIZE,
    EndpointOption.FI_OPT_TX_SIZE: lambda owner: owner.tx_size,
    EndpointOption.FI_OPT_RX_SIZE: lambda owner: owner.rx_size,
    EndpointOption.FI_OPT_MAX_MSG_SIZE: lambda owner: owner.max_msg_size,
    EndpointOption.FI_OPT_MAX_TAGGED_SIZE: lambda owner: owner.max_msg_size,
    EndpointOption.FI_OPT_MAX_RMA_SIZE: _max_rma_size,
    EndpointOption.FI_OPT_MAX_ATOMIC_SIZE: _max_rma_size,
    EndpointOption.FI_OPT_INJECT_MSG_SIZE: lambda owner: INJECT_SIZE,
    EndpointOption.FI_OPT_INJECT_TAGGED_SIZE: lambda owner: INJECT_SIZE,
    EndpointOption.FI_OPT_INJECT_RMA_SIZE: _inject_rma_size,
    EndpointOption.FI_OPT_INJECT_ATOMIC_SIZE: _inject_rma_size,
}
_WRITERS: dict[EndpointOption, Callable[[Any, int], None]] = {
    EndpointOption.FI_OPT_MIN_MULTI_RECV: lambda owner, size: owner._receiver.set_min_multi_recv(size),
    EndpointOption.FI_OPT_TX_SIZE: lambda owner, size: owner._resize(tx_size=size),
    EndpointOption.FI_OPT_RX_SIZE: lambda owner, size: owner._resize(rx_size=size),
}


class HasOptions(FabricObject):
    """An object with options, each a number: an endpoint, or a context of a scalable one."""

    _options: ClassVar[frozenset[EndpointOption]]
    """The options that apply."""

    def getopt(self, level: int, optname: int) -> int:
        """Return the value of an option (:class:`amoeba.EndpointOption`): ``fi_getopt``.

        Raises FI_ENOPROTOOPT for an option that does not apply.
        """
        return _READERS[self._option(level, optname)](self)

    def setopt(self, level: int, optname: int, value: int) -> None:
        """Change an option, FI_OPT_MIN_MULTI_RECV, FI_OPT_TX_SIZE or FI_OPT_RX_SIZE: ``fi_setopt``.

        Raises FI_ENOPROTOOPT for an option that does not apply, FI_EOPNOTSUPP for one that can only be read. Raises
        FI_EINVAL for an unsuitable value, FI_EOPBADSTATE for a size once enabled.
        """
        option = self._option(level, optname)
        if option not in _WRITERS:
            raise fabric_error(Errno.FI_EOPNOTSUPP, f"{option.name} can only be read")
        _WRITERS[option](self, value)

    def _option(self, level: int, optname: int) -> EndpointOption:
        self._check_open()
        if level != OptionLevel.FI_OPT_ENDPOINT:
            raise fabric_error(Errno.FI_ENOPROTOOPT, f"expected the level FI_OPT_ENDPOINT, got {level!r}")
        try:
            option = EndpointOption(optname)
        except ValueError:
            raise fabric_error(Errno.FI_ENOPROTOOPT, f"there is no option {optname}") from None
        if option not in self._options:
            raise fabric_error(Errno.FI_ENOPROTOOPT, f"{type(self).__name__} has no {option.name}")
        return option
