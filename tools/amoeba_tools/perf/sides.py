"""Interface of an API to its tests: NICs, and the two sides of a test on them."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, Self

from amoeba.nic.nic import Nic

from amoeba_tools.perf.meter import Meter
from amoeba_tools.perf.payloads import Findings
from amoeba_tools.perf.plan import PerfPlan

__all__ = ["Bench", "Client", "Server", "Side", "Steps"]

Steps = Iterator[None]
"""Steps of a side, which yields where others must make progress first."""


class Side(Protocol):
    """One side of a test. Closing it closes everything that it has opened."""

    findings: Findings
    """Errors found on this side."""

    def greeting(self) -> dict[str, Any]:
        """Return the facts that the other side needs, in a form that JSON can carry."""

    def connect(self, told: dict[str, Any]) -> None:
        """Connect to a side with this greeting: for a client to its peers one after the other, in their order."""

    def progress(self) -> int:
        """Make progress; more than 0 if there was any."""

    def close(self) -> None:
        """Release the side's resources."""


class Client(Side, Protocol):
    """The side that measures."""

    def role(self, meter: Meter) -> Steps:
        """Everything that it does."""


class Server(Side, Protocol):
    """The side that answers."""

    def role(self) -> Steps | None:
        """Everything that it does; None: nothing but making progress."""

    def verify(self) -> None:
        """Note what is wrong in its memory, when the client has done everything."""


class Bench(Protocol):
    """The NICs of this process, and sides on them. A context manager."""

    nics: Sequence[Nic]

    @classmethod
    def open(cls, kinds: Sequence[str], host: str | None, **options: Any) -> Self:
        """NICs of these kinds. ``host``: others reach them by UDP at this address; None: all are in this process.

        ``options`` are those of :func:`amoeba.open_cluster`, for NICs that are all in this process.
        """

    def client(self, plan: PerfPlan) -> Client:
        """Open the client's side, on the first NIC."""

    def server(self, plan: PerfPlan, index: int) -> Server:
        """Open the side of server ``index``, on one of the last NICs, which are the plan's peers."""

    def close(self) -> None:
        """Release the NICs after all measurements."""
