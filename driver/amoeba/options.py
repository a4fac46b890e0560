"""Options of endpoints: fi_getopt and fi_setopt of fi_endpoint(3)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from amoeba.connections import CM_DATA_SIZE
from amoeba.constants import EndpointOption, Errno, OptionLevel
from amoeba.errors import fabric_error
from amoeba.rings import INJECT_SIZE

if TYPE_CHECKING:
    from amoeba.endpoint import Endpoint

__all__ = ["get_option", "set_option"]


def _max_rma_size(endpoint: "Endpoint") -> int:
    return max(0, endpoint._max_rma_size)


def _inject_rma_size(endpoint: "Endpoint") -> int:
    return min(INJECT_SIZE, _max_rma_size(endpoint))


_READERS: dict[EndpointOption, Callable[["Endpoint"], int]] = {
    EndpointOption.FI_OPT_MIN_MULTI_RECV: lambda endpoint: endpoint._receiver.min_multi_recv,
    EndpointOption.FI_OPT_CM_DATA_SIZE: lambda endpoint: CM_DATA_SIZE,
    EndpointOption.FI_OPT_TX_SIZE: lambda endpoint: endpoint.tx_size,
    EndpointOption.FI_OPT_RX_SIZE: lambda endpoint: endpoint.rx_size,
    EndpointOption.FI_OPT_MAX_MSG_SIZE: lambda endpoint: endpoint.max_msg_size,
    EndpointOption.FI_OPT_MAX_TAGGED_SIZE: lambda endpoint: endpoint.max_msg_size,
    EndpointOption.FI_OPT_MAX_RMA_SIZE: _max_rma_size,
    EndpointOption.FI_OPT_MAX_ATOMIC_SIZE: _max_rma_size,
    EndpointOption.FI_OPT_INJECT_MSG_SIZE: lambda endpoint: INJECT_SIZE,
    EndpointOption.FI_OPT_INJECT_TAGGED_SIZE: lambda endpoint: INJECT_SIZE,
    EndpointOption.FI_OPT_INJECT_RMA_SIZE: _inject_rma_size,
    EndpointOption.FI_OPT_INJECT_ATOMIC_SIZE: _inject_rma_size,
}
_WRITERS: dict[EndpointOption, Callable[["Endpoint", int], None]] = {
    EndpointOption.FI_OPT_MIN_MULTI_RECV: lambda endpoint, size: endpoint._receiver.set_min_multi_recv(size),
    EndpointOption.FI_OPT_TX_SIZE: lambda endpoint, size: endpoint._resize(tx_size=size),
    EndpointOption.FI_OPT_RX_SIZE: lambda endpoint, size: endpoint._resize(rx_size=size),
}


def _named(endpoint: "Endpoint", level: int, optname: int) -> EndpointOption:
    if level != OptionLevel.FI_OPT_ENDPOINT:
        raise fabric_error(Errno.FI_ENOPROTOOPT, f"expected the level FI_OPT_ENDPOINT, got {level!r}")
    try:
        option = EndpointOption(optname)
    except ValueError:
        raise fabric_error(Errno.FI_ENOPROTOOPT, f"there is no option {optname}") from None
    connects = endpoint._connection is not None
    if option not in _READERS or (option is EndpointOption.FI_OPT_CM_DATA_SIZE and not connects):
        raise fabric_error(Errno.FI_ENOPROTOOPT, f"{endpoint.ep_type.name} of this NIC has no {option.name}")
    return option


def get_option(endpoint: "Endpoint", level: int, optname: int) -> int:
    """The value of an option. Raises FI_ENOPROTOOPT for one that does not apply."""
    return _READERS[_named(endpoint, level, optname)](endpoint)


def set_option(endpoint: "Endpoint", level: int, optname: int, value: int) -> None:
    """Change an option. Raises FI_ENOPROTOOPT for one that does not apply, FI_EOPNOTSUPP for one that is fixed."""
    option = _named(endpoint, level, optname)
    if option not in _WRITERS:
        raise fabric_error(Errno.FI_EOPNOTSUPP, f"{option.name} can only be read")
    _WRITERS[option](endpoint, value)
