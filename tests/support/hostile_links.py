"""NICs that ask everything of each other over links that do everything to their frames.

``python -m tests.support.hostile_links model,rtl --seed 7 --operations 500`` repeats one run.
"""

import argparse
import itertools
import random
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from amoeba_model.atomic.matrix import Cell, cells
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.impairments import Impairments
from amoeba_model.network import Network, SimulatedDevice
from amoeba_model.nic.first_psns import KEY_WORDS, first_psn
from amoeba_model.opcodes import Datatype, Form, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.switch import Switch
from amoeba_model.wire.uet import ReturnCode

from tests.support.devices import DEVICES
from tests.support.out_of_order_entries import throw_away_kept
from tests.support.raw_driver import ALL_RIGHTS, Buffer, RawContext, RawNic
from tests.support.scoreboard import PSNS, Memory, Posted, retired

__all__ = ["KINDS", "ONE_PERCENT", "Flow", "World", "run"]

ONE_PERCENT = Impairments(loss=0.01, duplication=0.01, reordering=0.01, corruption=0.01)
OK, FAILED, BAD_MKEY = ReturnCode.OK, ReturnCode.LOCAL_PDC_FAILED, ReturnCode.BAD_MKEY
COMPLETION, INLINE, FENCE, IMMEDIATE, CHAINED = (
    DescriptorFlags.COMPLETION, DescriptorFlags.INLINE, DescriptorFlags.FENCE, DescriptorFlags.IMMEDIATE,
    DescriptorFlags.CHAINED,
)  # fmt: skip

COUNTERS = 4
COUNTER_SPACING = 64
ARENA = 1 << 14
"""Bytes behind every NIC that any request may touch; the counters, which only additions touch, lie before it."""
HOT = 4096
"""Bytes of the counters' region."""
LONGEST = 10_000
COUNTER_KEY, ARENA_KEY = 0x1111_0000_2222, 0x3333_0000_4444
CONTEXTS = 2
RING = 5
"""log2 of the transmit ring's entries."""
PATIENCE = 20_000
"""Steps of the network after which something must have been completed."""
KINDS = ("ticket", "atomic", "fetch", "compare", "write", "read", "chain", "close", "nop")
_WEIGHTS = (30, 10, 10, 10, 16, 16, 4, 1, 1)
_CELLS = {form: [cell for cell in cells(extensions=True) if cell.form is form] for form in Form}
_OPCODES = {
    Form.BASE: DescriptorOpcode.ATOMIC,
    Form.FETCH: DescriptorOpcode.FETCH_ATOMIC,
    Form.COMPARE: DescriptorOpcode.COMPARE_ATOMIC,
}
_DROPS = (
    Counter.DROPPED_MALFORMED, Counter.DROPPED_CHECK, Counter.DROPPED_ADDRESS, Counter.DROPPED_OVERFLOW,
)  # fmt: skip
_ACCEPTED = (
    Counter.REQUESTS_RECEIVED, Counter.DUPLICATES, Counter.DROPPED_PDC, Counter.DROPPED_SEQUENCE,
    Counter.RESPONSES_RECEIVED, Counter.NACKS_RECEIVED, Counter.DROPPED_RESPONSE,
)  # fmt: skip
"""The fates of a received frame: exactly one of these."""


NO_KEY = (0,) * KEY_WORDS
"""``psn_key`` of NICs whose driver writes none."""


@dataclass(eq=False)
class Flow:
    """One PDC: a context, and the NIC it talks to."""

    context: RawContext
    peer: int
    target: "Host"
    next_psn: int = 0
    failed: bool = False
    outstanding: deque[Posted] = field(default_factory=deque)

    @property
    def tells(self) -> bool:
        """Something is to be completed behind all that does not tell; a NOP is in no order with others."""
        ordered = [posted for posted in self.outstanding if posted.opcode != DescriptorOpcode.NOP]
        return not ordered or ordered[-1].signals


@dataclass(eq=False)
class Host:
    """A NIC, the memory behind it, and what its contexts have in flight."""

    nic: RawNic
    contexts: list[RawContext]
    memory: Buffer
    expected: Memory
    local: list[Buffer]
    """Of each context: operands, compare values and results, :data:`LONGEST` bytes of each per ring entry."""
    free: list[list[int]]
    """Of each context: the numbers of the local buffers that are not in use."""
    events: list[tuple[int, ...]] = field(default_factory=list)
    checked: list[tuple[int, int]] = field(default_factory=list)
    executed: list[int] = field(default_factory=list)

    @property
    def device(self) -> SimulatedDevice:
        device = self.nic.device
        assert isinstance(device, SimulatedDevice)
        return device


class World:
    """Two to four NICs, each with two contexts that talk to all others, and a scoreboard.

    Parameters
    ----------
    kinds : sequence of str
        A device each: ``model`` or ``rtl``.
    impairments : Impairments
        Of every link.
    limit : int
        Timeouts in a row after which a PDC fails. If they do, requests may end with LOCAL_PDC_FAILED, and what they
        asked for may or may not have happened; never twice, and nothing behind what did not.
    switch : Switch, optional
        Of the network.
    patience : int
        Steps of the network after which something must have been completed.
    """

    def __init__(
        self,
        kinds: tuple[str, ...],
        impairments: Impairments = ONE_PERCENT,
        *,
        parameters: NicParameters | None = None,
        timeout: int = 4000,
        limit: int = 20,
        switch: Switch | None = None,
        patience: int = PATIENCE,
    ) -> None:
        self.parameters = parameters or NicParameters()
        self.network = Network(impairments=impairments, switch=switch)
        self._patience = patience
        self.hosts: list[Host] = []
        self.completed = 0
        self._serial = 0
        self._psn_blocks = itertools.count(1)
        self._posted: dict[int, tuple[Flow, Posted]] = {}
        self._all: list[tuple[Flow, Posted]] = []
        self._quiet = 0
        for number, kind in enumerate(kinds, start=1):
            self._open(number, kind, timeout, limit)
        self.flows = [
            Flow(context, peer, target)
            for host in self.hosts
            for context in host.contexts
            for peer, target in enumerate(self.hosts)
            if target is not host
        ]
        for number, flow in enumerate(self.flows):
            # Peer table entries are shared by a NIC's contexts.
            flow.peer += flow.context.number * len(self.hosts)
            self._open_pdc(flow, 0xFFFF_FFF8 if number == 0 else None)
        for host in self.hosts:
            host.nic.settle()
            host.device.tracing = True

    def _open(self, number: int, kind: str, timeout: int, limit: int) -> None:
        mac = 0x0200_0000_0000 | number
        device = DEVICES[kind](self.parameters)
        self.network.attach(device, mac.to_bytes(6, "big"))
        nic = RawNic(device, mac, 0x0A00_0000 | number, self.parameters)
        nic.answer_memory()
        nic.set("device", retransmit_timeout=timeout, retransmit_limit=limit)
        contexts = [
            nic.context(place, transmit_size=RING, completion_size=4, event_size=4 if place == 0 else None)
            for place in range(CONTEXTS)
        ]
        memory = nic.buffer(HOT + ARENA)
        memory[HOT] = random.Random(number).randbytes(ARENA)
        host = Host(
            nic,
            contexts,
            memory,
            Memory(memory[:], memory.address, self.parameters),
            [nic.buffer((3 * LONGEST) << RING) for _ in contexts],
            [list(range(1 << RING)) for _ in contexts],
        )
        self.hosts.append(host)
        nic.key(COUNTER_KEY, memory.address, HOT)
        self.set_arena_key(host, valid=True)

    def _open_pdc(self, flow: Flow, psn: int | None = None) -> None:
        """Store the peer anew, with sequence numbers that no other PDC comes to."""
        flow.next_psn = next(self._psn_blocks) << 20 if psn is None else psn
        flow.failed = False
        flow.context.nic.peer(
            flow.peer, flow.target.contexts[0], context=flow.context.number, initial_psn=flow.next_psn
        )

    def close(self) -> None:
        for host in self.hosts:
            host.device.close()

    def set_arena_key(self, host: Host, *, valid: bool) -> None:
        """Let requests in flight find the arena's region, or not."""
        host.nic.key(ARENA_KEY, host.memory.address + HOT, ARENA, flags=ALL_RIGHTS if valid else 0)

    # Posting

    def post(self, flow: Flow, kind: str, seed: int) -> bool:
        """Post a request, or a chain of them; False if there is no space, or the PDC waits to be opened anew."""
        generator = random.Random(f"{kind}/{seed}")
        pieces = generator.randint(2, 3) if kind == "chain" else 1
        host = self._host_of(flow)
        if len(host.free[flow.context.number]) < pieces:
            return False
        if flow.failed:
            if flow.outstanding:
                return False
            self._open_pdc(flow)
        before: list[Posted] = []
        for number in range(pieces):
            part = generator.choice(("write", "read", "fetch")) if kind == "chain" else kind
            posted = self._make(flow, part, generator)
            posted.before = list(before)
            if number < pieces - 1:
                posted.fields["flags"] |= CHAINED
            self._put(flow, posted)
            before.append(posted)
        flow.context.ring()
        return True

    def _host_of(self, flow: Flow) -> Host:
        return next(host for host in self.hosts if host.nic is flow.context.nic)

    def _make(self, flow: Flow, kind: str, generator: random.Random) -> Posted:
        """A request of the kind, its local buffers filled."""
        host, context = self._host_of(flow), flow.context.number
        slot = host.free[context].pop()
        local = host.local[context]
        start = 3 * LONGEST * slot
        flags = COMPLETION if kind == "nop" or generator.random() < 0.9 else DescriptorFlags(0)
        fields = {
            "opcode": DescriptorOpcode.NOP, "peer": flow.peer, "remote_key": ARENA_KEY, "length": 0,
            "local": local.address + start, "compare": local.address + start + LONGEST,
            "result": local.address + start + 2 * LONGEST,
        }  # fmt: skip
        posted = Posted(fields, flow.next_psn, slot=slot)
        match kind:
            case "ticket":
                posted.place = COUNTER_SPACING * generator.randrange(COUNTERS)
                posted.operand = (1).to_bytes(8, "little")
                flags |= INLINE
                fields |= {"opcode": DescriptorOpcode.FETCH_ATOMIC, "op": Op.FI_SUM, "local": 1, "length": 8,
                           "datatype": Datatype.FI_UINT64, "remote_key": COUNTER_KEY}  # fmt: skip
            case "atomic" | "fetch" | "compare":
                form = {"atomic": Form.BASE, "fetch": Form.FETCH, "compare": Form.COMPARE}[kind]
                self._make_atomic(posted, generator.choice(_CELLS[form]), generator)
            case "write" | "read":
                fields["opcode"] = DescriptorOpcode.WRITE if kind == "write" else DescriptorOpcode.READ
                fields["length"] = length = generator.choice((0, 1, 8, 31, 33, 300, 300, 4096, 4097, LONGEST))
                posted.place = HOT + generator.randrange(ARENA - length + 1)
                posted.operand = generator.randbytes(length) if kind == "write" else b""
            case "close":
                fields["opcode"] = DescriptorOpcode.CLOSE
        if kind not in ("close", "nop"):
            fields["remote_address"] = flow.target.memory.address + posted.place
            flags |= FENCE if generator.random() < 0.05 else 0
            if kind != "compare" and generator.random() < 0.1:
                flags |= IMMEDIATE
                fields["compare"] = generator.getrandbits(64)
        local[start] = posted.operand
        local[start + LONGEST] = posted.compare
        fields["flags"] = flags
        return posted

    @staticmethod
    def _make_atomic(posted: Posted, cell: Cell, generator: random.Random) -> None:
        size = cell.datatype.size
        count = generator.choice((1, 1, 1, 2, 5, generator.randint(1, 1 + 5000 // size)))
        length = count * size
        crowded, anywhere = size * generator.randrange(4), generator.randrange(ARENA - length + 1)
        posted.place = HOT + generator.choice((min(crowded, ARENA - length), anywhere))
        if cell.op is not Op.FI_ATOMIC_READ:
            posted.operand = generator.randbytes(length)
        if cell.form is Form.COMPARE:
            posted.compare = generator.randbytes(length)
        posted.fields |= {"opcode": _OPCODES[cell.form], "op": cell.op, "datatype": cell.datatype, "length": length}

    def _put(self, flow: Flow, posted: Posted) -> None:
        flow.context.put(context=self._serial, **posted.fields)
        self._posted[self._serial] = flow, posted
        self._serial += 1
        self._all.append((flow, posted))
        flow.outstanding.append(posted)
        psns = posted.psns(self.parameters.payload)
        flow.next_psn = (flow.next_psn + len(psns)) % PSNS
        if posted.opcode == DescriptorOpcode.CLOSE:
            flow.next_psn = first_psn(NO_KEY, flow.peer, flow.next_psn)
        flow.target.expected.expect(posted)

    # Time

    def step(self, *, events: bool = True) -> None:
        """Let one link latency pass, and take what has been completed; unless told not to, the events as well."""
        self.network.step()
        self._quiet += 1
        for host in self.hosts:
            for context in host.contexts:
                while (entry := context.poll()) is not None:
                    self._complete(host, context, entry)
            if events:
                self._take_events(host)
        assert self._quiet < self._patience or not self.busy, (
            f"nothing completed in {self._patience} steps: {self._waiting()}"
        )

    @property
    def busy(self) -> bool:
        return any(flow.outstanding for flow in self.flows)

    def _waiting(self) -> str:
        waiting = [flow for flow in self.flows if flow.outstanding]
        return ", ".join(f"{flow.context.nic.device.name}/{flow.peer}: {len(flow.outstanding)}" for flow in waiting)

    def _take_events(self, host: Host) -> None:
        while (entry := host.contexts[0].poll_event()) is not None:
            host.events.append((entry["data"], entry["address"], entry["length"], entry["kind"]))

    def _complete(self, host: Host, context: RawContext, entry: dict[str, int]) -> None:
        """A completion: of the oldest request of its PDC that tells; those before it went well and do not tell."""
        flow, posted = self._posted.pop(entry["context"], (None, None))
        assert flow is not None, f"a request was completed twice, or never posted: {entry}"
        assert posted is not None
        assert flow.context is context, f"completed in the wrong context: {entry}"
        assert entry["opcode"] == posted.opcode
        assert entry["length"] == posted.length
        self.completed += 1
        self._quiet = 0
        posted.status = entry["status"]
        if posted.opcode == DescriptorOpcode.NOP:  # waits for nothing
            flow.outstanding.remove(posted)
            self._release(host, flow, posted)
            return
        while (first := flow.outstanding.popleft()) is not posted:
            if first.opcode == DescriptorOpcode.NOP:
                flow.outstanding.append(first)  # in no order with others
                continue
            assert not first.signals, f"completed before an earlier request of the same PDC: {entry}"
            first.status = OK
            self._release(host, flow, first)
        self._release(host, flow, posted)
        flow.failed |= entry["status"] == FAILED

    def _release(self, host: Host, flow: Flow, posted: Posted) -> None:
        start = 3 * LONGEST * posted.slot + 2 * LONGEST
        if posted.has_result:
            posted.data = host.local[flow.context.number][start : start + posted.length]
        host.free[flow.context.number].append(posted.slot)

    def finish(self) -> None:
        """Repair the links, let everything be completed, and compare with the scoreboard."""
        for host in self.hosts:
            self.network.restore(host.device)
            self.network.resume(host.device)
        while self.busy:
            for flow in self.flows:
                if flow.outstanding and not flow.tells:
                    # What does not tell is complete when something behind it is.
                    self.post(flow, "ticket", self._serial)
            self.step()
        # What was held back arrives, and duplicates are answered.
        for _ in range(200):
            self.step()
        self._check()

    # The scoreboard

    def _check(self) -> None:
        failures = sum(host.nic.counter(Counter.FAILED_PDCS) for host in self.hosts)
        for host in self.hosts:
            checked, executed = retired(host.device.trace_events())
            host.expected.replay(checked, executed)
            assert host.memory[:] == bytes(host.expected.content), "memory is not what the requests make of it"
            assert host.events == host.expected.events
            assert host.device.faults() == []
        for flow, posted in self._all:
            self._check_request(flow, posted)
        self._check_tickets(failures)
        self._check_frames()
        if not failures:
            missing = [f"{psn:#x}" for host in self.hosts for psn, done in host.expected.runs() if not done]
            assert missing == [], "requests were completed, and these packets never executed"

    @staticmethod
    def _check_request(flow: Flow, posted: Posted) -> None:
        status, data = flow.target.expected.outcome(posted)
        if posted.fields["flags"] & CHAINED:
            return  # the end of the chain tells
        if posted.status == FAILED:
            return  # unknown is whether it happened; that it did not happen twice has been checked
        assert posted.status == status, f"expected status {status}, got {posted.status}: {posted.fields}"
        if posted.status == OK:
            assert posted.data == data, f"wrong data: {posted.fields}"

    def _check_tickets(self, failures: int) -> None:
        """Without looking at any trace: no value is fetched twice from a counter, and none is left out."""
        for host in self.hosts:
            for counter in range(COUNTERS):
                place = COUNTER_SPACING * counter
                tickets = [
                    int.from_bytes(posted.data, "little")
                    for flow, posted in self._all
                    if flow.target is host and posted.has_result and posted.place == place and posted.status == OK
                ]
                assert len(tickets) == len(set(tickets)), "two additions found the same value"
                count = host.memory.integer(place)
                if failures:
                    assert len(tickets) <= count
                else:
                    assert sorted(tickets) == list(range(count))

    def _check_frames(self) -> None:
        """Every frame is counted by what became of it, once."""
        extra = sum(throw_away_kept(host.nic, self.network) for host in self.hosts)
        traffic = self.network.traffic
        gone = traffic.delivered + traffic.lost + traffic.dropped + traffic.undeliverable
        assert traffic.sent + traffic.duplicated == gone + self.network.in_flight
        counters = [{counter: host.nic.counter(counter) for counter in Counter} for host in self.hosts]
        for values in counters:
            assert values[Counter.FRAMES_RECEIVED] == sum(values[counter] for counter in _ACCEPTED), values
        judged = sum(values[counter] for values in counters for counter in (Counter.FRAMES_RECEIVED, *_DROPS))
        assert judged + sum(host.device.overflowed for host in self.hosts) == traffic.delivered + extra


def run(
    kinds: tuple[str, ...],
    seed: int,
    operations: int,
    impairments: Impairments = ONE_PERCENT,
    *,
    limit: int = 20,
    interference: float = 0.002,
    closes: bool = True,
    parameters: NicParameters | None = None,
    switch: Switch | None = None,
) -> dict[Counter, int]:
    """A random program of that many requests; the counters of all NICs, added up.

    ``interference`` is the chance, in each step, that somebody cuts, pauses or repairs a link, or takes the region
    away from what is in flight, or gives it back.
    """
    generator = random.Random(seed)
    world = World(kinds, replace(impairments, seed=seed), limit=limit, parameters=parameters, switch=switch)
    try:
        _program(world, generator, operations, interference, closes)
        world.finish()
        return {counter: sum(host.nic.counter(counter) for host in world.hosts) for counter in Counter}
    except AssertionError as error:
        error.add_note(
            f"again: (python -m tests.support.hostile_links {','.join(kinds)} --seed {seed} "
            f"--operations {operations} --holdback {impairments.holdback} --limit {limit} "
            f"--interference {interference}{'' if closes else ' --no-close'})"
        )
        raise
    finally:
        world.close()


def _program(world: World, generator: random.Random, operations: int, interference: float, closes: bool) -> None:
    weights = [weight if closes or kind != "close" else 0 for kind, weight in zip(KINDS, _WEIGHTS, strict=True)]
    until, repair = 0, None
    left = operations
    while left:
        for _ in range(generator.choice((0, 0, 1, 3, 8))):
            flow = generator.choice(world.flows)
            (kind,) = generator.choices(KINDS, weights)
            left -= left and world.post(flow, kind, generator.getrandbits(32))
        world.step(events=generator.random() < 0.7)
        if repair is None and generator.random() < interference:
            until, repair = world.network.now + generator.randrange(30_000), _interfere(world, generator)
        elif repair is not None and until <= world.network.now:
            repair()
            repair = None


def _interfere(world: World, generator: random.Random) -> Callable[[], None]:
    """Something bad happens; how to undo it."""
    host = generator.choice(world.hosts)
    match generator.randrange(3):
        case 0:
            world.network.cut(host.device)
            return lambda: world.network.restore(host.device)
        case 1:
            world.network.pause(host.device)
            return lambda: world.network.resume(host.device)
    world.set_arena_key(host, valid=False)
    return lambda: world.set_arena_key(host, valid=True)


def main(arguments: list[str] | None = None) -> int:
    """Repeat one run; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.hostile_links", description=__doc__)
    parser.add_argument("kinds", help="devices, such as model,model,rtl")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operations", type=int, default=1000)
    parser.add_argument("--holdback", type=int, default=ONE_PERCENT.holdback, help="cycles")
    parser.add_argument("--limit", type=int, default=20, help="timeouts in a row after which a PDC fails")
    parser.add_argument("--interference", type=float, default=0.002)
    parser.add_argument("--no-close", action="store_true")
    options = parser.parse_args(arguments)
    counters = run(
        tuple(options.kinds.split(",")), options.seed, options.operations,
        replace(ONE_PERCENT, holdback=options.holdback), limit=options.limit,
        interference=options.interference, closes=not options.no_close,
    )  # fmt: skip
    for counter, value in counters.items():
        print(f"{counter.name:20} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
