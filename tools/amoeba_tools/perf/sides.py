"""What an API brings so that its tests can be run: NICs, and the two sides of a test on them."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, Self

from amoeba.nic.nic import Nic

from amoeba_tools.perf.meter import Meter
from amoeba_tools.perf.payloads import Findings
from amoeba_tools.perf.plan import PerfPlan

__all__ = ["Bench", "Client", "Server", "Side", "Steps"]

Steps = Iterator[None]
"""What a side does: it yields where somebody has to make progress before it can go on."""


class Side(Protocol):
    """One side of a test. Closing it closes everything that it has opened."""

    findings: Findings
    """What was found wrong here."""

    def greeting(self) -> dict[str, Any]:
        """What the other side has to know; JSON can carry it."""

    def connect(self, told: dict[str, Any]) -> None:
        """Get ready for a side that has told this: of a client's peers one after the other, in their order."""

    def progress(self) -> int:
        """Make progress; more than 0 if there was any."""

    def close(self) -> None:
        """It is not needed any more."""


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
        """The client's side, on the first NIC."""

    def server(self, plan: PerfPlan, index: int) -> Server:
        """The side of the server of this index, on one of the last NICs, which are the plan's peers."""

    def close(self) -> None:
        """Nothing is measured any more."""
