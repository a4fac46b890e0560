"""Random programs: honest work, hostile peers and contexts, bad links and resets, all at once.

A program is a list of actions, each a kind and a seed. It depends on nothing else: the same program on another kind
of device posts the same requests, and must leave the same memory behind. ``python -m tests.support.hostile_programs
model,rtl --seed 7`` repeats one; ``--shrink`` looks for the shortest part of it that still fails,
and prints the command for that.
"""

import argparse
import random
import sys
from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass, replace

from amoeba_model.impairments import Impairments
from amoeba_model.network import Network
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.switch import Switch
from amoeba_model.trace import NO_CONTEXT

from tests.support.devices import DEVICES
from tests.support.honest_work import BOUND, GUARD, HONEST, KINDS, PLACES, TENANT, WEIGHTS, Flow, Host, Numbers
from tests.support.hostile_peers import ARENA, OUTSIDER_KEY, TENANT_ENTRY, Outsider, meddle
from tests.support.out_of_order_entries import throw_away_kept
from tests.support.pcie_rtl import SMALL
from tests.support.push_back import LOSSLESS, TAIL_DROP
from tests.support.raw_driver import Buffer

__all__ = ["ACTIONS", "Action", "Report", "main", "make_program", "parse", "run", "shrink"]

_DROPS = (
    Counter.DROPPED_MALFORMED, Counter.DROPPED_CHECK, Counter.DROPPED_ADDRESS, Counter.DROPPED_OVERFLOW,
)  # fmt: skip
_ACCEPTED = (
    Counter.REQUESTS_RECEIVED, Counter.DUPLICATES, Counter.DROPPED_PDC, Counter.DROPPED_SEQUENCE,
    Counter.RESPONSES_RECEIVED, Counter.NACKS_RECEIVED, Counter.DROPPED_RESPONSE,
)  # fmt: skip
"""The fates of a received frame: exactly one of these."""

SMALL_WITH_TENANT = replace(SMALL, contexts=4, peers=8, target_pdcs=16, out_of_order_entries=8)
"""Built in two minutes; a quarter of the PDCs and slots that floods have to take."""

ACTIONS = {
    "post": 30, "wait": 30, "spray": 12, "flood": 2, "spoof": 6, "replay": 8, "garbage": 4, "meddle": 14, "cut": 2,
    "reset": 1, "restart": 2, "give_up": 1,
}  # fmt: skip
"""Kinds of actions, and how often they come."""


@dataclass(frozen=True)
class Action:
    kind: str
    seed: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.seed}"


Program = tuple[Action, ...]
_QUIET = 20
"""Steps in which what has passed a NIC's checks has been done."""
_CHANCES = (0.0, 0.005, 0.02, 0.05)


def make_program(seed: int, length: int) -> Program:
    """The program of a seed."""
    generator = random.Random(f"program/{seed}")
    kinds = generator.choices(list(ACTIONS), list(ACTIONS.values()), k=length)
    return tuple(Action(kind, generator.randrange(10_000)) for kind in kinds)


@dataclass
class Report:
    """The state behind a program, and the events of its run."""

    memory: tuple[bytes, ...]
    """Of each flow: the same on every device."""
    counters: "Tally[Counter]"
    """Of all NICs, since they were reset last."""
    refused: int
    """Accesses of hostile contexts that the hosts refused."""
    cut_short: int
    """Requests of which a reset, or a context's end, has left open whether they happened."""
    longest: int
    """Cycles that a request took at most."""


class World:
    """Two or three NICs, a network as bad as the seed says, and somebody on it who belongs to nobody."""

    def __init__(
        self, kinds: Sequence[str], seed: int, switch: Switch | None = None, parameters: NicParameters | None = None
    ) -> None:
        chance = random.Random(f"world/{seed}").choice(_CHANCES)
        links = Impairments(seed, loss=chance, duplication=chance, reordering=chance, corruption=chance, holdback=900)
        parameters = parameters or NicParameters()
        self.network = Network(impairments=links, switch=switch)
        self._numbers = Numbers(seed)
        self.hosts = [
            Host(number, DEVICES[kind](parameters), self.network, parameters)
            for number, kind in enumerate(kinds, start=1)
        ]
        self.flows: list[Flow] = []
        for host in self.hosts:
            for context in range(HONEST):
                for target in self.hosts:
                    if target is not host:
                        entry = len(self.hosts) * context + target.number
                        self.flows.append(Flow(len(self.flows), host, context, target, entry))
        for flow in self.flows:
            flow.open(self._numbers.key(), self._numbers.psn())
        self._arenas = [host.nic.buffer(3 * ARENA, fill=GUARD[0], context=NO_CONTEXT) for host in self.hosts]
        self._own = [host.nic.buffer(ARENA, context=TENANT) for host in self.hosts]
        for host in self.hosts:
            self._let_in(host)
        self.outsider = Outsider(self.network, seed, self.hosts)
        self.refused = self.cut_short = self.longest = 0
        self._posted: list[Flow] = []
        """By a request's number."""

    def _let_in(self, host: Host) -> None:
        """Give whoever means harm a region of a NIC's, and its tenant a way to the next one."""
        number = self.hosts.index(host)
        host.nic.key(OUTSIDER_KEY, self._arenas[number].address + ARENA, ARENA)
        neighbour = self.hosts[(number + 1) % len(self.hosts)]
        host.nic.peer(TENANT_ENTRY, neighbour.contexts[TENANT], context=TENANT, initial_psn=self._numbers.psn())
        host.nic.settle()

    def close(self) -> None:
        for host in self.hosts:
            host.device.close()

    # Time

    def step(self, count: int = 1) -> None:
        """Let link latencies pass; take what has been completed, and see that nothing takes too long."""
        for _ in range(count):
            self.network.step()
            for host in self.hosts:
                self._reap(host)
                for fault in host.device.faults():
                    assert fault.context == TENANT, f"{host.name}: an access that nobody hostile asked for: {fault}"
                    self.refused += 1
            for flow in self.flows:
                if flow.outstanding:
                    age = self.network.now - flow.outstanding[0].posted
                    assert age < BOUND, f"{flow.name}: a request is in flight for {age} cycles"
                    self.longest = max(self.longest, age)

    def _reap(self, host: Host) -> None:
        for number, context in enumerate(host.contexts):
            while (entry := context.poll()) is not None:
                if number == TENANT:
                    continue
                assert entry["context"] < len(self._posted), f"{host.name}: completed, and never posted: {entry}"
                flow = self._posted[entry["context"]]
                assert (flow.host, flow.context) == (host, number), f"{flow.name}: completed elsewhere: {entry}"
                flow.complete(entry)

    def _until(self, flow: Flow, most: int) -> None:
        """Wait until no more than that many requests of a flow are in flight."""
        while len(flow.outstanding) > most:
            self.step()

    # Honest work

    def post(self, flow: Flow, kind: str, seed: int) -> None:
        """Post a request when there is space for it; in a flow that was cut short, once it has been opened anew."""
        if flow.stale:
            self._open_anew(flow)
        self._until(flow, PLACES - 1)
        self._post(flow, kind, seed)

    def _post(self, flow: Flow, kind: str, seed: int = 0) -> None:
        self._posted.append(flow)
        flow.post(len(self._posted) - 1, kind, seed, self.network.now)

    def _open_anew(self, flow: Flow) -> None:
        self._until(flow, 0)
        flow.close_key()
        self.step(_QUIET)
        flow.settle()
        flow.open(self._numbers.key(), self._numbers.psn())
        self._post(flow, "repair")

    def _cut_short(self, flow: Flow, *, ended: bool = False) -> None:
        self.cut_short += 0 if flow.stale else len(flow.outstanding)
        flow.interrupt(ended=ended)

    def reset(self, host: Host) -> None:
        """Everything that it has in flight is gone; what others ask of it is known to nobody there."""
        for flow in self.flows:
            if host in (flow.host, flow.target):
                self._cut_short(flow, ended=flow.host is host)
            if flow.target is host:
                flow.slot = None
        host.reset()
        self._let_in(host)
        for other in self.hosts:
            if other is not host:
                other.nic.set("peers", fail=TENANT_ENTRY)
                other.nic.settle()
        self.step(4)
        for other in self.hosts:
            if other is not host:
                self._let_in(other)

    def restart(self, host: Host, number: int) -> None:
        """A context ends with all that it has in flight. Its peer entries are used again when a CLOSE is through."""
        flows = [flow for flow in self.flows if (flow.host, flow.context) == (host, number)]
        for flow in flows:
            self._cut_short(flow, ended=True)
        host.restart(number)
        for flow in flows:
            self._post(flow, "close")

    def give_up(self, flow: Flow) -> None:
        """The host gives a peer up: all that is in flight to it ends at once."""
        self._cut_short(flow)
        flow.host.nic.set("peers", fail=flow.entry)
        flow.host.nic.settle()

    # The end

    def finish(self) -> Report:
        """Let everything end, compare all memory with what it must be, and count the frames."""
        for host in self.hosts:
            self.network.restore(host.device)
        while any(flow.stale or flow.outstanding for flow in self.flows):  # the last CLOSE may fail as well
            for flow in self.flows:
                if flow.stale:
                    self._open_anew(flow)
            for flow in self.flows:
                self._until(flow, 0)
        for host in self.hosts:
            host.nic.set("contexts", TENANT, control=0)
            host.nic.set("peers", fail=TENANT_ENTRY)
            host.nic.settle()
        self.step(200)  # what was held back arrives, what hostile contexts asked for ends
        for flow in self.flows:
            flow.check()
        for arena, host in zip(self._arenas, self.hosts, strict=True):
            guard = GUARD * ARENA
            assert arena[:ARENA] == arena[2 * ARENA :] == guard, f"{host.name}: bytes beside the hostile region"
        counters: Tally[Counter] = Tally()
        for host in self.hosts:
            counters += self._count(host)
        traffic = self.network.traffic
        gone = traffic.delivered + traffic.lost + traffic.dropped + traffic.undeliverable
        assert traffic.sent + traffic.duplicated == gone + self.network.in_flight
        memory = tuple(bytes(flow.content) for flow in self.flows)
        return Report(memory, counters, self.refused, self.cut_short, self.longest)

    def _count(self, host: Host) -> "Tally[Counter]":
        """Every frame that came to a NIC since it was reset is counted by what became of it, once."""
        throw_away_kept(host.nic, self.network)
        values = {counter: host.nic.counter(counter) for counter in Counter}
        assert values[Counter.FRAMES_RECEIVED] == sum(values[counter] for counter in _ACCEPTED), (host.name, values)
        judged = sum(values[counter] for counter in (Counter.FRAMES_RECEIVED, *_DROPS))
        assert judged + host.overflowed == host.arrived, (host.name, host.arrived, values)
        return Tally(values)

    # Actions

    def perform(self, action: Action) -> None:
        generator = random.Random(str(action))
        host = generator.choice(self.hosts)
        flow = generator.choice(self.flows)
        match action.kind:
            case "post":
                for _ in range(generator.choice((1, 1, 3, 8))):
                    self.post(flow, *generator.choices(KINDS, WEIGHTS), generator.getrandbits(32))
            case "wait":
                self.step(generator.choice((1, 2, 5, 40)))
            case "meddle":
                self._meddle(host, generator)
            case "cut":
                self.network.cut(host.device)
                self.step(generator.randrange(100))
                self.network.restore(host.device)
            case "reset":
                self.reset(host)
            case "restart":
                self.restart(host, generator.randrange(HONEST))
            case "give_up":
                self.give_up(flow)
            case _:
                self.outsider.act(action.kind, host, generator)

    def _meddle(self, host: Host, generator: random.Random) -> None:
        number = self.hosts.index(host)
        others: list[Buffer] = [flow.local for flow in self.flows if flow.host is host]
        others += [flow.region for flow in self.flows if flow.target is host]
        for context in host.contexts[:HONEST]:
            others += [context.transmit, context.completions]
        far = self._arenas[(number + 1) % len(self.hosts)].address + ARENA
        meddle(host, self._own[number], others, far, generator)


def run(
    kinds: Sequence[str], seed: int, program: Sequence[Action], *, switch: Switch | None = None, small: bool = False
) -> Report:
    """Perform a program on NICs of these kinds. A failure is an AssertionError with the command that repeats it."""
    world = World(kinds, seed, switch, SMALL_WITH_TENANT if small else None)
    try:
        for action in program:
            world.perform(action)
        return world.finish()
    except AssertionError as error:
        actions = " ".join(map(str, program))
        how = "" if switch is None else " --pause" if switch.pause else " --drop"
        how += " --small" if small else ""
        error.add_note(
            f"again: (python -m tests.support.hostile_programs {','.join(kinds)} --seed {seed}{how} "
            f"--actions '{actions}')"
        )
        raise
    finally:
        world.close()


def shrink(
    kinds: Sequence[str], seed: int, program: Program, *, switch: Switch | None = None, small: bool = False
) -> Program:
    """A short part of a program that fails that fails as well: no single action can be left out."""

    def fails(part: Program) -> bool:
        try:
            run(kinds, seed, part, switch=switch, small=small)
        except AssertionError:
            return True
        return False

    size = max(len(program) // 2, 1)
    while True:
        start = 0
        while start < len(program):
            part = program[:start] + program[start + size :]
            if fails(part):
                program = part
            else:
                start += size
        if size == 1:
            return program
        size = size // 2


def parse(text: str) -> Program:
    """A program from its actions as a failure prints them."""
    pairs = (word.split(":") for word in text.split())
    return tuple(Action(kind, int(seed)) for kind, seed in pairs)


def main(arguments: list[str] | None = None) -> int:
    """Perform one program; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.hostile_programs", description=__doc__)
    parser.add_argument("kinds", help="devices, such as model,model,rtl")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--length", type=int, default=200, help="actions of the seed's program")
    parser.add_argument("--actions", help="the program itself")
    parser.add_argument("--pause", action="store_true", help="through a switch that lets nothing be lost")
    parser.add_argument("--drop", action="store_true", help="through a switch that drops frames without space")
    parser.add_argument("--small", action="store_true", help="NICs with few contexts, peers and PDCs")
    parser.add_argument("--programs", type=int, default=1, help="with seeds from --seed on")
    parser.add_argument("--shrink", action="store_true", help="look for the shortest part that fails")
    options = parser.parse_args(arguments)
    kinds = options.kinds.split(",")
    switch = LOSSLESS if options.pause else TAIL_DROP if options.drop else None
    for seed in range(options.seed, options.seed + options.programs):
        program = parse(options.actions) if options.actions else make_program(seed, options.length)
        if options.shrink:
            program = shrink(kinds, seed, program, switch=switch, small=options.small)
        report = run(kinds, seed, program, switch=switch, small=options.small)
        print(
            f"seed {seed}: {len(report.memory)} flows, {report.counters[Counter.FRAMES_RECEIVED]} frames, "
            f"{report.cut_short} requests cut short, {report.refused} accesses refused, "
            f"a request took {report.longest} cycles at most"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
