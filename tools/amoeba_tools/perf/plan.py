"""Plans of measurements: a test and its settings. A client sends its plan to the server as JSON."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba_model.opcodes import Datatype

from amoeba_tools.perf.catalog import APIS, PerfTest, TestKind, tests_of

__all__ = ["DATATYPES", "LAYOUTS", "MAX_PEERS", "MAX_WINDOW", "PerfPlan"]

LAYOUTS = ("contig", "iov")
RECEIVE_MODES = ("recv", "recv_data")
THREAD_MODES = ("single", "serialized", "multi")
MAX_WINDOW = 4096
MAX_PEERS = 31
"""With the client 32 NICs, as many as other workloads have."""
_MAX_SIZE = 1 << 28
_MAX_HEADER = 1 << 12
_MAX_ITERATIONS = 1 << 32
_ATOMICS = ("add", "fadd", "swap", "cswap")
DATATYPES = {datatype.name.removeprefix("FI_").lower(): datatype for datatype in Datatype}
"""Datatypes of libfabric's atomics, by name."""


@dataclass(frozen=True)
class PerfPlan:
    """One run of a test. Raises FI_EINVAL for what makes no sense."""

    api: str
    test: str
    sizes: tuple[int, ...] = (8,)
    """Bytes of the pieces of a message: as many entries as IOV has, or the sum of them in one piece."""
    iterations: int = 1000
    warmup: int = 100
    """Iterations before those that count."""
    outstanding: int | None = None
    """Outstanding operations; None: the test's default."""
    verify: bool = True
    percentile: float = 50.0
    layouts: tuple[str, str] = ("contig", "contig")
    """Memory layouts of the sender and of the receiver."""
    receive_mode: str = "recv"
    """Receive mode of stream tests."""
    thread_mode: str = "single"
    wildcard: bool = False
    """Tagged receives take any tag."""
    unexpected: bool = False
    """Tagged receives are posted when a probe has found their message."""
    error_handling: bool = False
    """Endpoints notice that their peer is gone."""
    nonblocking: bool = False
    """Memory is mapped with UCP_MEM_MAP_NONBLOCK."""
    header: int = 0
    """Bytes of an active message's header."""
    op: str = ""
    """The test's operation; empty: its first."""
    datatype: str = "uint64"
    """Datatype of libfabric's atomics."""
    peers: int = 1
    """NICs that the client works with, one operation with each in turn; more than one only in one process."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            given = getattr(self, field.name)
            if not _is_of_type(field.name, given):
                raise fabric_error(Errno.FI_EINVAL, f"a plan's {field.name} cannot be {given!r}")
        _expect(self.api in APIS, "api", f"one of {', '.join(APIS)}", self.api)
        _expect(self.test in tests_of(self.api), "test", f"one of {', '.join(tests_of(self.api))}", self.test)
        at_least = 0 if self.command in ("tag", "tag_sync", "am", "msg", "tagged") else 1
        _expect(0 < len(self.sizes) <= 32 and min(self.sizes) >= 0, "sizes", "1 to 32 sizes", self.sizes)
        _expect(at_least <= self.size <= _MAX_SIZE, "size", f"{at_least} to {_MAX_SIZE} bytes", self.size)
        if self.command in _ATOMICS:
            _expect(self.sizes in ((4,), (8,)), "size", "4 or 8 bytes of an atomic", self.size)
            _expect(self.layouts == ("contig", "contig"), "layout", "contig of an atomic", self.layouts)
        _expect(1 <= self.iterations <= _MAX_ITERATIONS, "iterations", "1 or more", self.iterations)
        _expect(0 <= self.warmup <= _MAX_ITERATIONS, "warm-up iterations", "0 or more", self.warmup)
        _expect(1 <= self.window <= MAX_WINDOW, "outstanding operations", f"1 to {MAX_WINDOW}", self.window)
        _expect(1 <= self.peers <= MAX_PEERS, "peers", f"1 to {MAX_PEERS}", self.peers)
        enough = "at least as many as there are peers"  # else the last ones have answered before the first ones begin
        _expect(self.iterations >= self.peers, "iterations", f"{enough}, {self.peers}", self.iterations)
        _expect(0 <= self.percentile <= 100, "percentile rank", "0 to 100", self.percentile)
        _expect(all(layout in LAYOUTS for layout in self.layouts), "layout", " or ".join(LAYOUTS), self.layouts)
        _expect(self.receive_mode in RECEIVE_MODES, "receive mode", " or ".join(RECEIVE_MODES), self.receive_mode)
        _expect(self.thread_mode in THREAD_MODES, "thread mode", ", ".join(THREAD_MODES), self.thread_mode)
        operations = self.entry.operations
        known = ", ".join(operations) or f"no op for {self.test}"
        _expect(not self.op or self.op in operations, "op", known, self.op)
        if self.command == "atomic":
            self._check_atomic()
        _expect(0 <= self.header <= _MAX_HEADER, "header", f"0 to {_MAX_HEADER} bytes", self.header)

    def _check_atomic(self) -> None:
        """Check operation and datatype of libfabric's atomics; the NIC decides which combinations exist."""
        _expect(self.datatype in DATATYPES, "datatype", f"one of {', '.join(DATATYPES)}", self.datatype)
        element = DATATYPES[self.datatype].size
        whole = len(self.sizes) == 1 and self.size % element == 0
        _expect(whole, "size", f"a multiple of {element} bytes, which {self.datatype} has", self.size)

    @property
    def entry(self) -> PerfTest:
        return tests_of(self.api)[self.test]

    @property
    def command(self) -> str:
        return self.entry.command

    @property
    def operation(self) -> str:
        """Operation of a test that has several."""
        return self.op or next(iter(self.entry.operations), "")

    @property
    def ping_pong(self) -> bool:
        return self.entry.kind is TestKind.PING_PONG

    @property
    def size(self) -> int:
        """Bytes of a message."""
        return sum(self.sizes)

    @property
    def window(self) -> int:
        return self.entry.window if self.outstanding is None else self.outstanding

    @property
    def total(self) -> int:
        """Iterations in all, numbered from 0: that of number n is with peer n % peers."""
        return self.warmup + self.iterations

    def told(self) -> dict[str, Any]:
        """Return the plan in the form that :meth:`from_told` of another process takes."""
        return dataclasses.asdict(self)

    @classmethod
    def from_told(cls, told: Any) -> "PerfPlan":
        """Return the plan that another process has sent. Raises FI_EINVAL for an invalid plan."""
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(told, dict) or set(told) != names:
            raise fabric_error(Errno.FI_EINVAL, f"expected a plan of {', '.join(sorted(names))}, got {told!r}")
        given: dict[str, Any] = {name: tuple(it) if isinstance(it, list) else it for name, it in told.items()}
        return cls(**given)


_TYPES: dict[str, tuple[type, ...]] = {
    "api": (str,),
    "op": (str,),
    "datatype": (str,),
    "test": (str,),
    "receive_mode": (str,),
    "thread_mode": (str,),
    "outstanding": (int, type(None)),
    "percentile": (int, float),
    **dict.fromkeys(("iterations", "warmup", "header", "peers"), (int,)),
    **dict.fromkeys(("verify", "wildcard", "unexpected", "error_handling", "nonblocking"), (bool,)),
}


def _is_of_type(name: str, given: Any) -> bool:
    if name == "sizes":
        return isinstance(given, tuple) and all(type(size) is int for size in given)
    if name == "layouts":
        return isinstance(given, tuple) and len(given) == 2 and all(type(layout) is str for layout in given)
    return type(given) in _TYPES[name]


def _expect(right: bool, name: str, expected: str, given: object) -> None:
    if not right:
        raise fabric_error(Errno.FI_EINVAL, f"{name}: expected {expected}, got {given!r}")
