"""One run of the solver, as the catalog lists it."""

from collections.abc import Callable
from dataclasses import dataclass

from amaranth.lib import wiring
from amoeba_sim.formal import Outcome, prove

__all__ = ["Proof", "with_covers"]


@dataclass(frozen=True)
class Proof:
    """One run of the solver: ``build`` makes the specification; the rest is as for ``amoeba_sim.formal.prove``."""

    name: str
    says: str
    build: Callable[[], wiring.Component]
    mode: str
    depth: int
    any_power_up: bool = False

    def run(self) -> Outcome:
        return prove(
            self.build(), self.name, mode=self.mode, depth=self.depth, any_power_up=self.any_power_up, timeout=300
        )


def with_covers(name, says, build, mode, depth, cover_depth=10):
    """A proof, and that the situations it is about can come about at all."""
    return [Proof(name, says, build, mode, depth), Proof(f"{name}_reached", "", build, "cover", cover_depth)]
