"""Options of endpoints: fi_getopt and fi_setopt of fi_endpoint(3)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from amoeba.constants import EndpointOption, Errno, OptionLevel
from amoeba.errors import fabric_error
from amoeba.operations import MAX_MESSAGE
from amoeba.rings import INJECT_SIZE

if TYPE_CHECKING:
    from amoeba.endpoint import Endpoint

__all__ = ["get_option", "set_option"]

_READERS: dict[EndpointOption, Callable[["Endpoint"], int]] = {
    EndpointOption.FI_OPT_TX_SIZE: lambda endpoint: endpoint.tx_size,
    EndpointOption.FI_OPT_RX_SIZE: lambda endpoint: endpoint.rx_size,
    EndpointOption.FI_OPT_MAX_RMA_SIZE: lambda endpoint: MAX_MESSAGE,
    EndpointOption.FI_OPT_MAX_ATOMIC_SIZE: lambda endpoint: MAX_MESSAGE,
    EndpointOption.FI_OPT_INJECT_RMA_SIZE: lambda endpoint: INJECT_SIZE,
    EndpointOption.FI_OPT_INJECT_ATOMIC_SIZE: lambda endpoint: INJECT_SIZE,
}
_WRITERS: dict[EndpointOption, Callable[["Endpoint", int], None]] = {
    EndpointOption.FI_OPT_TX_SIZE: lambda endpoint, size: endpoint._resize(tx_size=size),
    EndpointOption.FI_OPT_RX_SIZE: lambda endpoint, size: endpoint._resize(rx_size=size),
}


def _named(level: int, optname: int) -> EndpointOption:
    if level != OptionLevel.FI_OPT_ENDPOINT:
        raise fabric_error(Errno.FI_ENOPROTOOPT, f"expected the level FI_OPT_ENDPOINT, got {level!r}")
    try:
        option = EndpointOption(optname)
    except ValueError:
        raise fabric_error(Errno.FI_ENOPROTOOPT, f"there is no option {optname}") from None
    if option not in _READERS:
        raise fabric_error(Errno.FI_ENOPROTOOPT, f"endpoints of this NIC have no {option.name}")
    return option


def get_option(endpoint: "Endpoint", level: int, optname: int) -> int:
    """The value of an option. Raises FI_ENOPROTOOPT for one that does not apply."""
    return _READERS[_named(level, optname)](endpoint)


def set_option(endpoint: "Endpoint", level: int, optname: int, value: int) -> None:
    """Change an option. Raises FI_ENOPROTOOPT for one that does not apply, FI_EOPNOTSUPP for one that is fixed."""
    option = _named(level, optname)
    if option not in _WRITERS:
        raise fabric_error(Errno.FI_EOPNOTSUPP, f"{option.name} can only be read")
    _WRITERS[option](endpoint, value)
