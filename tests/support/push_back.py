"""NICs that give each other more than their links and their switch hold.

``python -m tests.support.push_back rtl,rtl --pause --seed 3`` repeats one run.
"""

import argparse
import random
import sys
from dataclasses import replace

from amoeba_model.impairments import PERFECT, Impairments
from amoeba_model.parameters import NicParameters
from amoeba_model.switch import Switch

from tests.support.hostile_links import World

__all__ = ["LOSSLESS", "TAIL_DROP", "crowd", "exchange"]

LOSSLESS = Switch(buffer=50_000, nic_buffer=50_000, pause=True, mark=20_000)
"""As little as the pause of frames needs on links of 100 cycles."""
TAIL_DROP = Switch(buffer=30_000, nic_buffer=50_000, mark=20_000)
_KINDS = ("read", "write", "ticket")
_WEIGHTS = (4, 4, 2)
PATIENCE = 1500
"""Steps: with timeouts of 4,000 cycles, by far enough for any number of them that bad luck may need."""


def exchange(
    kinds: tuple[str, ...],
    switch: Switch | None,
    *,
    seed: int = 1,
    requests: int = 60,
    impairments: Impairments = PERFECT,
    parameters: NicParameters | None = None,
    threads: int | None = None,
    patience: int = PATIENCE,
) -> World:
    """Let each flow of all NICs, to all others at once, do that many READs, WRITEs and fetching additions; the world.

    All is posted as soon as there is space. Completions are compared with the scoreboard, as memory is.
    """
    return _run(kinds, switch, seed, requests, impairments, parameters, threads, patience, into=None)


def crowd(
    kinds: tuple[str, ...],
    switch: Switch | None,
    *,
    seed: int = 1,
    requests: int = 60,
    impairments: Impairments = PERFECT,
    parameters: NicParameters | None = None,
    patience: int = PATIENCE,
) -> World:
    """:func:`exchange` of all but the last NIC with the last one alone: incast."""
    return _run(kinds, switch, seed, requests, impairments, parameters, None, patience, into=len(kinds) - 1)


def _run(
    kinds: tuple[str, ...],
    switch: Switch | None,
    seed: int,
    requests: int,
    impairments: Impairments,
    parameters: NicParameters | None,
    threads: int | None,
    patience: int,
    into: int | None,
) -> World:
    generator = random.Random(seed)
    world = World(
        kinds, replace(impairments, seed=seed), parameters=parameters, switch=switch, limit=50, patience=patience
    )
    if threads is not None:
        world.network.threads = threads
    flows = [flow for flow in world.flows if into is None or flow.target is world.hosts[into]]
    left = dict.fromkeys(flows, requests)
    try:
        while any(left.values()):
            for flow in flows:
                while left[flow]:
                    (kind,) = generator.choices(_KINDS, _WEIGHTS)
                    if not world.post(flow, kind, generator.getrandbits(32)):
                        break
                    left[flow] -= 1
            world.step()
        world.finish()
    except AssertionError as error:
        how = "" if switch is None else " --pause" if switch.pause else " --drop"
        how += "" if into is None else " --incast"
        error.add_note(
            f"again: (python -m tests.support.push_back {','.join(kinds)}{how} --seed {seed} "
            f"--requests {requests} --impairments {impairments.loss})"
        )
        raise
    finally:
        world.close()
    return world


def main(arguments: list[str] | None = None) -> int:
    """Repeat one run; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.push_back", description=__doc__)
    parser.add_argument("kinds", help="devices, such as model,model,rtl")
    parser.add_argument("--pause", action="store_true")
    parser.add_argument("--drop", action="store_true")
    parser.add_argument("--incast", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--impairments", type=float, default=0.0, help="Chance of each.")
    options = parser.parse_args(arguments)
    chance = options.impairments
    world = (crowd if options.incast else exchange)(
        tuple(options.kinds.split(",")), LOSSLESS if options.pause else TAIL_DROP if options.drop else None,
        seed=options.seed, requests=options.requests,
        impairments=Impairments(loss=chance, duplication=chance, reordering=chance, corruption=chance),
    )  # fmt: skip
    print(world.network.now, "cycles,", world.network.traffic)
    return 0


if __name__ == "__main__":
    sys.exit(main())
