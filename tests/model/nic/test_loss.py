"""Random programs over a network that loses, repeats, delays and damages: everything happens once, in order."""

import itertools
import random
from collections.abc import Callable

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.wire.uet import ReturnCode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.lossy_bench import SIZE
from tests.support.raw_driver import Pair, RawContext
from tests.support.saboteur import Saboteur, chance

MakePair = Callable[..., Pair]
OK = ReturnCode.OK
COUNTERS = 4
"""Shared by all contexts; each at the start of a page of its own."""
COMPLETION, INLINE, FENCE, CHAINED, IMMEDIATE = (
    DescriptorFlags.COMPLETION, DescriptorFlags.INLINE, DescriptorFlags.FENCE, DescriptorFlags.CHAINED,
    DescriptorFlags.IMMEDIATE,
)  # fmt: skip


class Program:
    """One context that posts random requests and checks what comes back.

    It adds to counters that others add to as well, and writes and reads memory that is its own: of the former it
    knows that every value fetched is there once, of the latter it knows every byte.
    """

    def __init__(self, context: RawContext, peer: int, counters: int, own: int, seed: int) -> None:
        self.context = context
        self.fetched: list[tuple[int, int]] = []
        """(counter, old value) of every addition."""
        self._peer = peer
        self._counters = counters
        self._own = own
        self._generator = random.Random(seed)
        self._memory = bytearray(SIZE)
        self._local = context.nic.buffer(64 * SIZE)
        self._posted: list[tuple[int, Callable[[int], None]]] = []
        """Number of each request in flight, and what to look at when it is complete."""
        self.immediates = 0
        self._number = 0

    def post(self) -> None:
        """Post a request or a chain of them."""
        generator = self._generator
        fields, look = generator.choice([self._add, self._add, self._write, self._read, self._chain])()
        number, self._number = self._number, self._number + 1
        fields["flags"] |= generator.choice([0, 0, 0, FENCE])
        if generator.random() < 0.1:
            fields["flags"] |= IMMEDIATE
            fields["compare"] = number
            self.immediates += 1
        self.context.put(context=number, peer=self._peer, remote_key=Pair.KEY, **fields)
        self.context.ring()
        self._posted.append((number, look))

    def poll(self) -> bool:
        """Look at the next completion; whether there was one."""
        entry = self.context.poll()
        if entry is None:
            return False
        number, look = self._posted.pop(0)
        assert (entry["context"], entry["status"]) == (number, OK)
        look(self._place(number))
        return True

    @property
    def outstanding(self) -> int:
        return len(self._posted)

    def _place(self, number: int) -> int:
        return number % 32 * 2 * SIZE

    def _add(self) -> tuple[dict[str, int], Callable[[int], None]]:
        counter = self._generator.randrange(COUNTERS)

        def look(place: int) -> None:
            self.fetched.append((counter, self._local.integer(place)))

        return {
            "opcode": DescriptorOpcode.FETCH_ATOMIC, "op": Op.FI_SUM, "datatype": Datatype.FI_UINT64,
            "flags": COMPLETION | INLINE, "length": 8, "local": 1,
            "result": self._local.address + self._place(self._number),
            "remote_address": self._counters + counter * SIZE,
        }, look  # fmt: skip

    def _span(self) -> tuple[int, int]:
        length = self._generator.choice([0, 1, 8, 17, 300, SIZE])
        return self._generator.randrange(SIZE - length + 1), length

    def _write(self, flags: int = COMPLETION) -> tuple[dict[str, int], Callable[[int], None]]:
        start, length = self._span()
        data = self._generator.randbytes(length)
        # Its operands stay as they are until it completes: no other request in flight has this place.
        local = self._place(self._number) + (SIZE if flags & CHAINED else 0)
        self._local[local] = data
        self._memory[start : start + length] = data
        return {
            "opcode": DescriptorOpcode.WRITE, "flags": flags, "length": length, "local": self._local.address + local,
            "remote_address": self._own + start,
        }, lambda place: None  # fmt: skip

    def _read(self) -> tuple[dict[str, int], Callable[[int], None]]:
        start, length = self._span()
        expected = bytes(self._memory[start : start + length])

        def look(place: int) -> None:
            assert self._local[place : place + length] == expected

        return {
            "opcode": DescriptorOpcode.READ, "flags": COMPLETION, "length": length,
            "result": self._local.address + self._place(self._number), "remote_address": self._own + start,
        }, look  # fmt: skip

    def _chain(self) -> tuple[dict[str, int], Callable[[int], None]]:
        """A piece that is continued by a request of its own."""
        fields, _ = self._write(CHAINED)
        self.context.put(peer=self._peer, remote_key=Pair.KEY, **fields)
        return self._read()


def run(pair: Pair, seed: int, evil: float, operations: int, contexts: int = 3) -> None:
    generator = random.Random(seed)
    pair.target.answer_memory()
    pair.remote = pair.target.context(event_size=4)
    pair.initiator.set("device", retransmit_timeout=3000, retransmit_limit=16)
    for nic in (pair.initiator, pair.target):
        Saboteur(nic.device, chance(generator, evil))  # type: ignore[arg-type]
    memory = pair.target.buffer((COUNTERS + contexts) * SIZE)
    pair.target.key(Pair.KEY, memory.address, memory.size)
    programs = []
    for number in range(contexts):
        context = pair.initiator.context(number, transmit_size=5, completion_size=5)
        # One of them comes past the end of the sequence numbers.
        pair.initiator.peer(number, pair.remote, context=number, initial_psn=-operations // 9 * number & 0xFFFF_FFFF)
        own = memory.address + (COUNTERS + number) * SIZE
        programs.append(Program(context, number, memory.address, own, generator.randrange(1 << 30)))
    left = operations
    events: list[int] = []
    for _ in range(1000 * operations):
        for program in programs:
            while program.poll():
                pass
            if left and program.outstanding < 14 and generator.random() < 0.5:
                program.post()
                left -= 1
        event = pair.remote.poll_event()
        if event is not None:
            events.append(event["data"] << 8 | event["source_context"])
        if not left and not any(program.outstanding for program in programs):
            break
        pair.network.step()
    assert [program.outstanding for program in programs] == [0] * contexts
    for counter in range(COUNTERS):
        fetched = [[old for place, old in program.fetched if place == counter] for program in programs]
        assert all(values == sorted(values) for values in fetched)
        assert sorted(itertools.chain(*fetched)) == list(range(memory.integer(counter * SIZE)))
    while (event := pair.remote.poll_event()) is not None:
        events.append(event["data"] << 8 | event["source_context"])
    assert len(events) == len(set(events)) == sum(program.immediates for program in programs)
    assert pair.initiator.counter(Counter.FAILED_PDCS) == 0
    assert pair.initiator.device.faults() == pair.target.device.faults() == []


@pytest.mark.parametrize(("seed", "evil"), [(1, 0.0), (2, 0.01), (3, 0.03), (4, 0.1), (5, 0.2)])
def test_every_operation_of_a_long_program_happens_once_and_in_order(
    make_model_pair: MakePair, seed: int, evil: float
) -> None:
    pair = make_model_pair()
    run(pair, seed, evil, 2000)
    if evil:
        assert pair.initiator.counter(Counter.RETRANSMISSIONS) > 0
        assert pair.target.counter(Counter.DUPLICATES) > 0
    else:
        assert pair.initiator.counter(Counter.TIMEOUTS) == pair.target.counter(Counter.DUPLICATES) == 0


@given(seed=st.integers(0, 1 << 30), evil=st.floats(0.02, 0.12), window=st.sampled_from([1, 2, 8, 64]))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_short_programs_happen_once_and_in_order_whatever_the_window(
    make_model_pair: MakePair, seed: int, evil: float, window: int
) -> None:
    run(make_model_pair(NicParameters(window=window)), seed, evil, 60)
