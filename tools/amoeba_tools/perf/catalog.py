"""The tests by their names: UCP's are those of ``ucx_perftest`` (``src/tools/perf/perftest.c`` of UCX 1.12.1),
libfabric's are programs of fabtests 1.17.0, without their ``fi_``.
"""

import enum
from dataclasses import dataclass

from amoeba_model.opcodes import Op

__all__ = ["APIS", "PerfTest", "TestKind", "tests_of"]

APIS = ("ucp", "libfabric")
"""APIs with tests."""


class TestKind(enum.Enum):
    """Direction of a test's messages. A ping-pong reports half a round trip."""

    __test__ = False

    PING_PONG = enum.auto()
    """Both sides alternate: UCX_PERF_TEST_TYPE_PINGPONG."""
    ONE_WAY = enum.auto()
    """Only the client sends, with several operations outstanding: UCX_PERF_TEST_TYPE_STREAM_UNI."""


@dataclass(frozen=True)
class PerfTest:
    """A test of an API."""

    api: str
    name: str
    command: str
    """Operation of the test: ``tag``, ``put``, ``fadd`` ..."""
    kind: TestKind
    description: str
    time: str
    """Name of an iteration's time: ``latency`` or ``overhead``."""
    window: int
    """Default number of outstanding operations."""
    operations: tuple[str, ...] = ()
    """Values of ``--op``, the default first."""

    @property
    def factor(self) -> int:
        """Operations of an iteration, one behind the other."""
        return 2 if self.kind is TestKind.PING_PONG else 1


def _ucp(name: str, command: str, description: str, time: str, window: int = 1) -> PerfTest:
    kind = TestKind.PING_PONG if name.endswith("_lat") else TestKind.ONE_WAY
    return PerfTest("ucp", name, command, kind, description, time, window)


_TESTS: tuple[PerfTest, ...] = (
    _ucp("tag_lat", "tag", "tag match latency", "latency"),
    _ucp("tag_bw", "tag", "tag match bandwidth", "overhead", 32),
    _ucp("tag_sync_lat", "tag_sync", "tag sync match latency", "latency"),
    _ucp("tag_sync_bw", "tag_sync", "tag sync match bandwidth", "overhead", 32),
    _ucp("ucp_put_lat", "put", "put latency", "latency"),
    _ucp("ucp_put_bw", "put", "put bandwidth", "overhead", 32),
    _ucp("ucp_get", "get", "get latency / bandwidth / message rate", "latency"),
    _ucp("ucp_add", "add", "atomic add bandwidth / message rate", "overhead"),
    _ucp("ucp_fadd", "fadd", "atomic fetch-and-add latency / bandwidth / rate", "latency"),
    _ucp("ucp_swap", "swap", "atomic swap latency / bandwidth / rate", "latency"),
    _ucp("ucp_cswap", "cswap", "atomic compare-and-swap latency / bandwidth / rate", "latency"),
    _ucp("stream_bw", "stream", "stream bandwidth", "overhead"),
    _ucp("stream_lat", "stream", "stream latency", "latency"),
    _ucp("ucp_am_lat", "am", "am latency", "latency"),
    _ucp("ucp_am_bw", "am", "am bandwidth / message rate", "overhead", 32),
)


def _libfabric(
    name: str, command: str, description: str, window: int = 1, operations: tuple[str, ...] = ()
) -> PerfTest:
    ping_pong = name.endswith("pingpong")
    kind = TestKind.PING_PONG if ping_pong else TestKind.ONE_WAY
    time = "latency" if window == 1 else "overhead"
    return PerfTest("libfabric", name, command, kind, description, time, window, operations)


_ATOMICS = tuple(op.name.removeprefix("FI_").lower() for op in Op)
_FETCHING = tuple(f"fetch_{name}" for name in _ATOMICS if name not in ("atomic_read", "atomic_write"))
_ATOMICS_FIRST = ("sum", *(name for name in _ATOMICS if name != "sum"), *_FETCHING)
_TESTS += (
    _libfabric("rdm_pingpong", "msg", "message latency"),
    _libfabric("rdm_tagged_pingpong", "tagged", "tagged message latency"),
    _libfabric("rma_pingpong", "rma", "RMA write latency"),
    _libfabric("bw", "msg", "message bandwidth / rate", 64),
    _libfabric("rdm_tagged_bw", "tagged", "tagged message bandwidth / rate", 64),
    _libfabric("rma_bw", "rma", "RMA bandwidth / rate", 64, ("write", "read", "writedata")),
    _libfabric("rdm_atomic", "atomic", "atomic latency / rate", 1, _ATOMICS_FIRST),
)


def tests_of(api: str) -> dict[str, PerfTest]:
    """The tests of an API by name, in the order in which its own program lists them."""
    return {test.name: test for test in _TESTS if test.api == api}
