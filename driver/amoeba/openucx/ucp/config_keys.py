"""The keys of a configuration: those of UCX 1.12's UCP and Amoeba's own, with their syntax and defaults.

Programs set keys of UCX that concern features which Amoeba's NICs lack, such as UCX's transports. These keys are
``inert``: their values are checked, and change nothing.
"""

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from amoeba.devices.devices import SIMULATED_KINDS
from amoeba.openucx.ucp.status import invalid_param

__all__ = ["AUTO", "KEYS", "Key", "Syntax"]

AUTO = None
"""The value of "auto": the driver chooses."""
Reader: TypeAlias = Callable[[str], Any]
"""Return the meaning of a text. Raises ValueError for a text without meaning."""

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_MEMORY = re.compile(r"(\d+)(?:([KMGT])B?|B)?", re.IGNORECASE)
_SECONDS = {"": 1.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_TIME = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(m|s|ms|us|ns)?")
_BANDWIDTH = re.compile(r"(\d+(?:\.\d*)?)([KMGT]?)(b|B)(?:ps|/s|s)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_REAL = re.compile(r"\d+(?:\.\d*)?|\.\d+")
_WORDS = {"y": True, "yes": True, "1": True, "n": False, "no": False, "0": False}


class Syntax(NamedTuple):
    """The syntax of values."""

    words: str
    """Description for ``ucp_config_print``."""
    read: Reader


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError
    return found


def _memory(text: str) -> int:
    number, unit = _matched(_MEMORY, text).groups()
    return int(number) * _UNITS[(unit or "").upper()]


def _time(text: str) -> float:
    number, unit = _matched(_TIME, text).groups()
    return float(number) * _SECONDS[unit or ""]


def _bandwidth(text: str) -> float:
    number, unit, kind = _matched(_BANDWIDTH, text).groups()
    return float(number) * _UNITS[unit.upper()] / (1 if kind == "B" else 8)


def _number(text: str) -> int:
    return int(_matched(_NUMBER, text)[0])


def _real(text: str) -> float:
    return float(_matched(_REAL, text)[0])


def _yes_or_no(text: str) -> bool:
    try:
        return _WORDS[text.lower()]
    except KeyError:
        raise ValueError from None


def _list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(","))


def _or_infinite(read: Reader) -> Reader:
    return lambda text: math.inf if text.lower() == "inf" else read(text)


def _or_auto(read: Reader) -> Reader:
    return lambda text: AUTO if text.lower() == "auto" else read(text)


def _one_of(*words: str) -> Syntax:
    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError
        return text.lower()

    return Syntax("|".join(words), read)


_MEMORY_UNITS = Syntax('bytes, as "4096", "8k", "1MB"; "inf", "auto"', _or_auto(_or_infinite(_memory)))
_BOOL = Syntax("y|n", _yes_or_no)
_UINT = Syntax('a number, or "inf"', _or_infinite(_number))
_UINT_AUTO = Syntax('a number, "inf" or "auto"', _or_auto(_or_infinite(_number)))
_DOUBLE = Syntax("a number", _real)
_TEXTS = Syntax("a list with commas", _list)
_TEXT = Syntax("text", str)
_SECONDS_UNITS = Syntax('a time, as "20s", "5ms"; "inf", "auto"', _or_auto(_or_infinite(_time)))
_BYTES_PER_SECOND = Syntax('a bandwidth, as "5000MBps", or "auto"', _or_auto(_bandwidth))
_ON_OFF_AUTO = Syntax("y|n|auto", _or_auto(lambda text: _yes_or_no({"on": "y", "off": "n"}.get(text.lower(), text))))
_VERSION = _one_of("v1", "v2")


class Key(NamedTuple):
    """One key."""

    name: str
    """Name without UCX_."""
    default: str
    syntax: Syntax
    doc: str
    inert: bool = True
    """The key changes nothing on Amoeba's NICs."""
    alias_of: str | None = None
    """The key whose old name this is."""

    def read(self, text: str) -> Any:
        """Return the meaning of a value: sizes in bytes, times in seconds, ``math.inf``, :data:`AUTO`.

        Raises UCS_ERR_INVALID_PARAM for a text without meaning.
        """
        try:
            return self.syntax.read(text.strip())
        except ValueError:
            raise invalid_param(f"{self.name}: expected {self.syntax.words}, got {text[:60]!r}") from None


def _port(text: str) -> int:
    number = _number(text)
    if number >= 1 << 16:
        raise ValueError
    return number


_ALL = "all"
_KEYS = (
    Key("NET_DEVICES", _ALL, _TEXTS, "Network devices to use."),
    Key("SHM_DEVICES", _ALL, _TEXTS, "Devices of shared memory to use."),
    Key("ACC_DEVICES", _ALL, _TEXTS, "Accelerators to use."),
    Key("SELF_DEVICES", _ALL, _TEXTS, "Devices for messages to oneself."),
    Key("TLS", _ALL, _TEXTS, "Transports to use."),
    Key("PROTOS", _ALL, _TEXTS, "Patterns of the protocols to use."),
    Key("ALLOC_PRIO", "md:sysv,md:posix,huge,thp,md:*,mmap,heap", _TEXTS, "Ways to allocate memory, the best first."),
    Key("SOCKADDR_TLS_PRIORITY", "rdmacm,tcp,sockcm", _TEXTS, "Transports of connections to socket addresses."),
    Key("SOCKADDR_AUX_TLS", "ud", _TEXTS, "Transports of what else such connections exchange."),
    Key("SELECT_DISTANCE_MD", "cuda_cpy", _TEXT, "The memory domain whose distance counts in choosing transports."),
    Key("MEMTYPE_REG_WHOLE_ALLOC_TYPES", "cuda", _TEXTS, "Types of memory registered by whole allocations."),
    Key("RNDV_MEMTYPE_DIRECT_SIZE", "inf", _MEMORY_UNITS, "The longest rendezvous without staging."),
    Key("WARN_INVALID_CONFIG", "y", _BOOL, "Warn of devices and transports that do not exist."),
    Key("BCOPY_THRESH", "auto", _MEMORY_UNITS, "From which length on short messages are copied."),
    Key("RNDV_THRESH", "auto", _MEMORY_UNITS,
        "From which length on the receiver fetches the data of a message.", inert=False),
    Key("RNDV_SEND_NBR_THRESH", "256k", _MEMORY_UNITS,
        "The same of ucp_tag_send_nbr, if RNDV_THRESH is auto."),
    Key("RNDV_THRESH_FALLBACK", "inf", _MEMORY_UNITS, "The same if a calculation finds none."),
    Key("RNDV_PERF_DIFF", "1", _DOUBLE, "Percentage by which a rendezvous may be slower."),
    Key("MULTI_LANE_MAX_RATIO", "4", _DOUBLE, "How much slower than the fastest a lane may be."),
    Key("MAX_EAGER_LANES", "1", _UINT, "", alias_of="MAX_EAGER_RAILS"),
    Key("MAX_EAGER_RAILS", "1", _UINT, "Devices that one message is divided among."),
    Key("MAX_RNDV_LANES", "2", _UINT, "", alias_of="MAX_RNDV_RAILS"),
    Key("MAX_RNDV_RAILS", "2", _UINT, "Devices that one rendezvous is divided among."),
    Key("RNDV_SCHEME", "auto", _one_of("auto", "get_zcopy", "put_zcopy", "rkey_ptr"), "Who moves the data."),
    Key("RKEY_PTR_SEG_SIZE", "512k", _MEMORY_UNITS, "Pieces in which directly mapped memory is copied."),
    Key("ZCOPY_THRESH", "auto", _MEMORY_UNITS, "From which length on messages are not copied."),
    Key("BCOPY_BW", "auto", _BYTES_PER_SECOND, "How fast copying is."),
    Key("ATOMIC_MODE", "guess", _one_of("cpu", "device", "guess"), "Who executes atomics: here always the NIC."),
    Key("ADDRESS_DEBUG_INFO", "n", _BOOL, "Names in workers' addresses."),
    Key("MAX_WORKER_NAME", "32", _UINT, "", alias_of="MAX_WORKER_ADDRESS_NAME"),
    Key("MAX_WORKER_ADDRESS_NAME", "32", _UINT, "The longest name in a worker's address."),
    Key("USE_MT_MUTEX", "n", _BOOL, "A mutex between threads, not a spinlock."),
    Key("ADAPTIVE_PROGRESS", "y", _BOOL, "Poll interfaces in use alone."),
    Key("SEG_SIZE", "8192", _MEMORY_UNITS, "Pieces of a worker's registered memory."),
    Key("TM_THRESH", "1024", _MEMORY_UNITS, "From which length on a receive is posted to the NIC."),
    Key("TM_MAX_BB_SIZE", "1024", _MEMORY_UNITS, "The longest receive posted with a buffer of the library's."),
    Key("TM_FORCE_THRESH", "8192", _MEMORY_UNITS, "From which length on a receive makes others go to the NIC, too."),
    Key("TM_SW_RNDV", "n", _BOOL, "Rendezvous by software where tags are matched by the NIC."),
    Key("NUM_EPS", "auto", _UINT_AUTO, "How many endpoints there will be; wins over estimated_num_eps."),
    Key("NUM_PPN", "auto", _UINT_AUTO, "How many processes a host will have; wins over estimated_num_ppn."),
    Key("RNDV_FRAG_SIZE", "host:512K,cuda:4M", _TEXTS, "Pieces of a rendezvous, by type of memory."),
    Key("RNDV_FRAG_ALLOC_COUNT", "host:128,cuda:128", _TEXTS, "How many of them are allocated at a time."),
    Key("RNDV_PIPELINE_SEND_THRESH", "inf", _MEMORY_UNITS, "From which length on the sender overlaps them."),
    Key("FLUSH_WORKER_EPS", "y", _BOOL, "Flush a worker by flushing its endpoints."),
    Key("UNIFIED_MODE", "n", _BOOL, "All hosts are alike."),
    Key("CM_USE_ALL_DEVICES", "y", _BOOL, "Endpoints to socket addresses use every device."),
    Key("LISTENER_BACKLOG", "auto", _UINT_AUTO, "How many connections may wait to be taken."),
    Key("PROTO_ENABLE", "n", _BOOL, "UCX's newer choice of protocols."),
    Key("KEEPALIVE_INTERVAL", "20s", _SECONDS_UNITS, "Time between looks for dead endpoints.", inert=False),
    Key("KEEPALIVE_NUM_EPS", "128", _UINT, "Endpoints that are looked at each time."),
    Key("PROTO_INDIRECT_ID", "auto", _ON_OFF_AUTO, "Numbers in place of pointers in messages."),
    Key("RNDV_PUT_FORCE_FLUSH", "n", _BOOL, "Flush before the end of a rendezvous by puts is told."),
    Key("SA_DATA_VERSION", "v1", _VERSION, "The oldest form of connection requests."),
    Key("RKEY_MPOOL_MAX_MD", "2", _UINT, "Memory domains of remote keys that come out of a pool."),
    Key("RX_MPOOL_SIZES", "64,1kb", _TEXTS, "Sizes of the pools that messages are received into."),
    Key("ADDRESS_VERSION", "v1", _VERSION, "The form of workers' addresses."),
    Key("DEVICE", SIMULATED_KINDS[0], _one_of(*SIMULATED_KINDS), "What the process's own NIC is.", inert=False),
    Key("LINK_HOST", "127.0.0.1", _TEXT, "Where its link to other processes listens: an IPv4 address.", inert=False),
    Key("LINK_PORT", "0", Syntax("a port, 0: any", _port), "The UDP port of that link.", inert=False),
)  # fmt: skip
KEYS = {key.name: key for key in _KEYS}
"""Every key by its name."""
