"""Every kind of operation at once, and checks that each was performed exactly once.

Every rank owns memory that all ranks operate on. One part is shared: a table for XOR, and counters that all ranks
increment by sums, fetching sums and compare-and-swap. The rest is a slab per rank, written by that rank alone: since
operations on one peer are ordered, the rank always knows the slab's content. All ranks send messages to all, short
and long, with and without tags and data, some of them before their receives.

The ranks check

- every fetched value and every byte read, on arrival: slabs have a known content, and a counter is at least the value
  that the rank left there;
- the fetched values of a counter: one sequence of additions, without duplicate and without gap;
- every message, in the order of the receives of its kind: the sender's next message, byte by byte;
- at the end all memory, and all immediate data and messages, each received once and in order.

The posted operations and their order depend only on the seed and on the cycles of completions.
"""

import contextlib
import itertools
import random
from collections import Counter as Tally
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from amoeba.core.buffers import allocate
from amoeba.core.errors import ErrorAvailableError
from amoeba.libfabric.objects.constants import BindFlags, Caps, CqFormat, Datatype, MrAccess, Op, OpFlags
from amoeba.libfabric.objects.domain import MemoryRegion
from amoeba.libfabric.objects.endpoints.endpoint import INJECT_SIZE, Endpoint
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.libfabric.objects.operations.vectors import AtomicMsg, Msg, RmaIoc, RmaIov, RmaMsg, TaggedMsg
from amoeba.libfabric.objects.queues.completion import CqTaggedEntry

from amoeba_tools.exactly_once import ADDED, FETCHED, LANES, SWAPPED, XORED, Peer, Report, digest, mixed
from amoeba_tools.workload_records import WORD, Bytes, Layout, Posted, PostedReceive, message_of

__all__ = ["Rank"]
_MAX_SEGMENTS = 4
_MAX_ELEMENTS = 40
_DATATYPES = (
    (Datatype.FI_UINT8, "<u1"),
    (Datatype.FI_UINT16, "<u2"),
    (Datatype.FI_UINT32, "<u4"),
    (Datatype.FI_UINT64, "<u8"),
)
_OPERATIONS: dict[Op, Callable[[Any, Any], Any]] = {
    Op.FI_SUM: np.add,
    Op.FI_BXOR: np.bitwise_xor,
    Op.FI_MIN: np.minimum,
    Op.FI_ATOMIC_WRITE: lambda here, operand: operand,
}
_OFTEN_MORE, _OFTEN_FENCED, _OFTEN_INJECTED, _OFTEN_DATA = 0.3, 0.03, 0.5, 0.3
_OPERANDS, _COMPARES, _RESULTS = range(3)
_PARTS = 3
"""Parts of a slot in local memory."""
_MAX_PIECES = 16
"""Descriptors of one operation: with four segments of everything 13, and one for data."""
_RECEIVES = (4, 1, 4)
"""Receives that a rank keeps posted, by lane: with one, messages often have to wait."""
_FEWEST_PLACES = 16
"""Minimum number of operations in the ring's size, which leaves free space for reads of long messages."""
_TO_NUMBER = 8
"""A tag has the lane below this bit, and how many messages were sent in it to this peer before from here on."""
_ANY_NUMBER = (1 << 64) - (1 << _TO_NUMBER)
_SHORTEST = 8
"""Bytes of a message: enough to tell it from others."""
_TO_SOURCE = 32
"""Immediate data: the number of the rank in the bits from here on, how many it sent to this peer before below."""


class Rank:
    """A NIC with memory, an endpoint, and operations to do, on these ranks' memory and with them."""

    def __init__(
        self,
        fabric: Fabric,
        nic: int,
        rank: int,
        ranks: int,
        window: int,
        seed: int,
        exits: contextlib.ExitStack,
        targets: Sequence[int],
    ) -> None:
        self.rank = rank
        self._targets = targets
        self.problems: list[str] = []
        self.done: Tally[str] = Tally()
        self.posted = 0
        self._layout = layout = Layout(ranks, fabric.nics[nic].parameters.payload)
        self._random = random.Random(f"{seed}/{rank}")
        domain = exits.enter_context(fabric.domain(nic))
        # Whole pages, and keys by number: frames and cycles are the same in every run.
        self._memory: Bytes = np.frombuffer(allocate(layout.size), np.uint8)[: layout.size]
        self._slot_size = -(-layout.longest // 64) * 64
        local = (_PARTS * window + sum(_RECEIVES)) * self._slot_size
        self._local: Bytes = np.frombuffer(allocate(local), np.uint8)[:local]
        rights = MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE
        self._region = exits.enter_context(domain.mr_reg(self._memory, rights, requested_key=1 + rank))
        self._desc = exits.enter_context(
            domain.mr_reg(
                self._local,
                MrAccess.FI_READ | MrAccess.FI_WRITE | MrAccess.FI_SEND | MrAccess.FI_RECV,
                requested_key=1 + ranks + rank,
            )
        )
        self._queue = exits.enter_context(domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED))
        self._addresses = exits.enter_context(domain.av_open())
        self._endpoint: Endpoint = exits.enter_context(
            domain.endpoint(
                tx_size=_MAX_PIECES * max(window, _FEWEST_PLACES),
                rx_size=2 * window,
                cq=self._queue,
                av=self._addresses,
                cq_flags=BindFlags.FI_TRANSMIT | BindFlags.FI_RECV,
            )
        )
        self._peers: list[Peer] = []
        self._heard = [0] * ranks
        self._received = [[0] * LANES for _ in range(ranks)]
        self._receives: list[deque[PostedReceive]] = [deque() for _ in range(LANES)]
        """In the order in which they were posted, by lane."""
        self._slots = list(range(window))
        self._kinds = {
            self._fetch_add: 4,
            self._add: 3,
            self._swap: 2,
            self._xor: 2,
            self._write: 4,
            self._read: 4,
            self._tell: 2,
            self._write_vector: 2,
            self._read_vector: 2,
            self._fetch_vector: 3,
            self._compare_vector: 2,
            self._send: 3,
            self._tagged_send: 3,
            self._long_send: 2,
        }

    @property
    def outstanding(self) -> int:
        return self.posted - self.done.total()

    def introduction(self) -> list[Any]:
        """Return the facts by which others reach this rank; travels as JSON."""
        return [self._endpoint.getname().hex(), self._region.address, self._region.key]

    def meet(self, introductions: Sequence[Sequence[Any]]) -> None:
        """Learn of all ranks, this one included; their numbers in the address vector are their ranks."""
        for name, address, key in introductions:
            self._addresses.insert(bytes.fromhex(name))
            self._peers.append(Peer(address, key, bytearray(self._layout.slab)))
        inbox = iter(self._local.reshape(-1, self._slot_size)[-sum(_RECEIVES) :])
        for lane, receives in enumerate(_RECEIVES):
            for _ in range(receives):
                self._receive(lane, next(inbox))

    def sent(self) -> list[list[int]]:
        """How many messages went to each rank, by lane."""
        return [peer.messages for peer in self._peers]

    def misses(self, sent: Sequence[Sequence[Sequence[int]]]) -> bool:
        """Return whether messages are missing, of all that the ranks :meth:`sent`."""
        return self._received != [counts[self.rank] for counts in sent]

    def post(self, most: int) -> None:
        """Post operations, up to ``most`` since the beginning, until the window is full."""
        kinds, weights = list(self._kinds), list(self._kinds.values())
        while self._slots and self.posted < most:
            (kind,) = self._random.choices(kinds, weights)
            posted = Posted(kind.__name__.strip("_").replace("_", " "), self._slots.pop())
            target = self._random.choice(self._targets)
            kind(self._peers[target], target, posted)
            self.posted += 1

    def reap(self) -> int:
        """Take and check what has completed, and what peers have said; how many operations were done."""
        before = self.done.total()
        try:
            entries = self._queue.readfrom(64)
        except ErrorAvailableError:
            failed = self._queue.readerr()
            assert failed is not None  # the queue has just said so
            self._complain(f"{failed.op_context.kind}: {failed.error()}")
            return 0
        for entry, source in entries:
            assert isinstance(entry, CqTaggedEntry)  # the format that the queue was opened with
            if entry.flags & Caps.FI_RECV:
                self._arrive(entry, source)
            elif entry.flags & Caps.FI_REMOTE_CQ_DATA:
                self._hear(entry.data, source)
            else:
                self._finish(entry.op_context)
        return self.done.total() - before

    def report(self) -> Report:
        """Return the rank's operations, and its memory at the end."""
        layout = self._layout

        def words(start: int, count: int) -> list[int]:
            return [int(word) for word in self._memory[start : start + WORD * count].view("<u8")]

        slabs = [layout.slab_of(rank) for rank in range(len(self._peers))]
        return {
            "rank": self.rank,
            "problems": self.problems,
            "done": dict(self.done),
            "posted": self.posted,
            "sent": [peer.report() for peer in self._peers],
            "fetched": words(layout.fetched, FETCHED),
            "added": words(layout.added, ADDED),
            "swapped": words(layout.swapped, SWAPPED),
            "xored": words(layout.xored, XORED),
            "slabs": [digest(self._memory[slab : slab + layout.slab].tobytes()) for slab in slabs],
            "heard": self._heard,
            "received": self._received,
        }

    def hang(self, patience: float) -> None:
        """Report a hang: no operation has completed for ``patience`` seconds."""
        if self.outstanding:
            self._complain(f"no completion for {patience:g} s, with {self.outstanding} operations outstanding")

    def _complain(self, problem: str) -> None:
        self.problems.append(f"rank {self.rank}: {problem}")

    def _finish(self, posted: Posted) -> None:
        self._slots.append(posted.slot)
        self.done[posted.kind] += 1
        if problem := posted.problem():
            self._complain(f"{posted.kind}: {problem}")

    def _hear(self, data: int, source: int) -> None:
        rank, number = data >> _TO_SOURCE, data & (1 << _TO_SOURCE) - 1
        if rank != source or number != self._heard[source]:
            self._complain(f"heard data {number} of rank {rank} from peer {source}, expected {self._heard[source]}")
        else:
            self._heard[source] += 1

    # Messages

    def _receive(self, lane: int, buffer: Bytes) -> None:
        """Post a receive for the next message in a lane, whoever sends it; without a tag in lane 0."""
        receive = PostedReceive(lane, buffer)
        self._receives[lane].append(receive)
        if lane:
            self._endpoint.trecv(buffer, lane, _ANY_NUMBER, desc=self._any_desc(), context=receive)
        else:
            self._endpoint.recv(buffer, desc=self._any_desc(), context=receive)

    def _arrive(self, entry: CqTaggedEntry, source: int) -> None:
        """Take a completed receive. Long messages take longer, so that a receive may complete before its turn."""
        receive: PostedReceive = entry.op_context
        receive.entry, receive.source = entry, source
        receives = self._receives[receive.lane]
        while receives and receives[0].entry is not None:
            first = receives.popleft()
            if problem := self._message_problem(first):
                self._complain(problem)
                return
            self._received[first.source][first.lane] += 1
            self._receive(first.lane, first.buffer)

    def _message_problem(self, receive: PostedReceive) -> str:
        """Return the error in a message, which must be its sender's next one in the lane; empty if the message is
        right.
        """
        entry, lane, source = receive.entry, receive.lane, receive.source
        assert entry is not None  # it has met a message
        if not 0 <= source < len(self._peers):
            return f"a message in lane {lane} from {source:#x}, an unknown rank"
        number = self._received[source][lane]
        where = f"message {number} of rank {source} in lane {lane}"
        found = receive.buffer[: entry.len].tobytes()
        if found != message_of(source, self.rank, lane, number, entry.len):
            return f"{where}: {entry.len} bytes that begin with {found[:_SHORTEST].hex()} are not what was sent"
        if lane and entry.tag != (number << _TO_NUMBER | lane):
            return f"{where}: tag {entry.tag:#x}, expected {number << _TO_NUMBER | lane:#x}"
        if entry.flags & Caps.FI_REMOTE_CQ_DATA and entry.data != number:
            return f"{where}: data {entry.data}, expected {number}"
        return ""

    def _send(self, peer: Peer, target: int, posted: Posted) -> None:
        self._post_message(peer, target, posted, 0, self._random.choice((64, 1024)))

    def _tagged_send(self, peer: Peer, target: int, posted: Posted) -> None:
        self._post_message(peer, target, posted, self._random.randrange(1, LANES), self._random.choice((64, 1024)))

    def _long_send(self, peer: Peer, target: int, posted: Posted) -> None:
        """Send a long message in any lane, among short ones."""
        least = self._endpoint.domain.nic.parameters.payload + 1
        self._post_message(peer, target, posted, self._random.randrange(LANES), self._layout.longest, least)

    def _post_message(
        self, peer: Peer, target: int, posted: Posted, lane: int, most: int, least: int = _SHORTEST
    ) -> None:
        """Send the next message in a lane, of ``least`` to ``most`` bytes."""
        number = peer.messages[lane]
        peer.messages[lane] += 1
        length = self._random.randint(least, most)
        operands = self._operands(posted, message_of(self.rank, target, lane, number, length))
        iov = self._scattered(operands, 1)
        flags = self._flags(operands)
        if self._random.random() < _OFTEN_DATA:
            flags |= OpFlags.FI_REMOTE_CQ_DATA
        if lane:
            tag = number << _TO_NUMBER | lane
            tagged = TaggedMsg(iov, target, tag, desc=self._descs(iov), context=posted, data=number)
            self._endpoint.tsendmsg(tagged, flags)
        else:
            self._endpoint.sendmsg(Msg(iov, target, self._descs(iov), posted, number), flags)
        self._spoil(operands, flags)

    # Shared memory

    def _fetch_add(self, peer: Peer, target: int, posted: Posted) -> None:
        index, step = self._random.randrange(FETCHED), self._random.randint(1, 1 << 16)

        def examine(found: int) -> str:
            least, peer.least[index] = peer.least[index], found + step
            peer.steps[index] += mixed(found + step) - mixed(found)
            return "" if found >= least else f"counter {index} of rank {target} is {found}, expected {least} or more"

        posted.examine = examine
        posted.results = self._results(posted, WORD)
        self._endpoint.fetch_atomic(
            np.uint64(step), posted.results, target, peer.address + self._layout.fetched + WORD * index, peer.key,
            Op.FI_SUM, Datatype.FI_UINT64, result_desc=self._desc, context=posted, flags=self._flags(),
        )  # fmt: skip

    def _add(self, peer: Peer, target: int, posted: Posted) -> None:
        count = self._random.randint(1, ADDED)
        steps = [self._random.getrandbits(64) for _ in range(count)]
        for index, step in enumerate(steps):
            peer.added[index] += step
        operands = self._operands(posted, np.array(steps, np.uint64).tobytes())
        self._endpoint.atomic(
            operands, target, peer.address + self._layout.added, peer.key, Op.FI_SUM, Datatype.FI_UINT64,
            desc=self._desc, context=posted, flags=self._flags(operands),
        )  # fmt: skip

    def _swap(self, peer: Peer, target: int, posted: Posted) -> None:
        """Add 1 by compare-and-swap, which fails if another one was faster."""
        index = self._random.randrange(SWAPPED)
        guess = peer.guesses[index]

        def examine(found: int) -> str:
            swapped = found == guess
            peer.swapped[index] += swapped
            least, peer.guesses[index] = peer.guesses[index], found + swapped
            return "" if found >= least else f"word {index} of rank {target} fell from {least} to {found}"

        posted.examine = examine
        posted.results = self._results(posted, WORD)
        self._endpoint.compare_atomic(
            np.uint64(guess + 1), np.uint64(guess), posted.results, target,
            peer.address + self._layout.swapped + WORD * index, peer.key, Op.FI_CSWAP, Datatype.FI_UINT64,
            result_desc=self._desc, context=posted, flags=self._flags(),
        )  # fmt: skip

    def _xor(self, peer: Peer, target: int, posted: Posted) -> None:
        """XOR words of the table in several places."""
        places = self._random.sample(range(XORED), self._random.randint(1, _MAX_SEGMENTS))
        values = [self._random.getrandbits(64) for _ in places]
        for place, value in zip(places, values, strict=True):
            peer.xored[place] ^= value
        operands = self._operands(posted, np.array(values, np.uint64).tobytes())
        iov = self._scattered(operands, WORD)
        remote = [RmaIoc(peer.address + self._layout.xored + WORD * place, 1, peer.key) for place in places]
        flags, data = self._data_for(peer)
        self._endpoint.atomicmsg(
            AtomicMsg(iov, target, remote, Op.FI_BXOR, Datatype.FI_UINT64, self._descs(iov), posted, data),
            flags | self._flags(operands),
        )

    # The own slab

    def _write(self, peer: Peer, target: int, posted: Posted) -> None:
        operands, addr = self._change(peer, posted)
        flags = self._flags(operands)
        self._endpoint.write(operands, target, addr, peer.key, desc=self._any_desc(), context=posted, flags=flags)
        self._spoil(operands, flags)

    def _tell(self, peer: Peer, target: int, posted: Posted) -> None:
        operands, addr = self._change(peer, posted)
        self._endpoint.writedata(
            operands, self._next_data(peer), target, addr, peer.key, desc=self._any_desc(), context=posted,
            flags=self._flags(operands),
        )  # fmt: skip

    def _read(self, peer: Peer, target: int, posted: Posted) -> None:
        ((offset, length),) = self._places(self._length(), 1, 1)
        posted.results = self._results(posted, length)
        posted.expected = bytes(peer.slab[offset : offset + length])
        self._endpoint.read(
            posted.results, target, self._address(peer, offset), peer.key, desc=self._any_desc(), context=posted,
            flags=self._flags(),
        )  # fmt: skip

    def _write_vector(self, peer: Peer, target: int, posted: Posted) -> None:
        places = self._places(self._length(), 1)
        data = self._random.randbytes(sum(length for _, length in places))
        begin = 0
        for offset, length in places:
            peer.slab[offset : offset + length] = data[begin : begin + length]
            begin += length
        operands = self._operands(posted, data)
        iov = self._scattered(operands, 1)
        remote = [RmaIov(self._address(peer, offset), length, peer.key) for offset, length in places]
        flags, word = self._data_for(peer)
        flags |= self._flags(operands)
        self._endpoint.writemsg(RmaMsg(iov, target, remote, self._descs(iov), posted, word), flags)
        self._spoil(operands, flags)

    def _read_vector(self, peer: Peer, target: int, posted: Posted) -> None:
        places = self._places(self._length(), 1)
        posted.expected = b"".join(peer.slab[offset : offset + length] for offset, length in places)
        posted.results = self._results(posted, len(posted.expected))
        iov = self._scattered(posted.results, 1)
        remote = [RmaIov(self._address(peer, offset), length, peer.key) for offset, length in places]
        self._endpoint.readmsg(RmaMsg(iov, target, remote, self._descs(iov), posted), self._flags())

    def _fetch_vector(self, peer: Peer, target: int, posted: Posted) -> None:
        op = self._random.choice(list(_OPERATIONS))
        operands, places, datatype, kind = self._elements(posted)
        posted.expected = b""
        begin = 0
        for offset, count in places:
            here = np.frombuffer(peer.slab, kind, count, offset).copy()
            posted.expected += here.tobytes()
            there = _OPERATIONS[op](here, operands[begin : begin + here.nbytes].view(kind))
            peer.slab[offset : offset + here.nbytes] = there.tobytes()
            begin += here.nbytes
        posted.results = self._results(posted, operands.nbytes)
        remote = [RmaIoc(self._address(peer, offset), count, peer.key) for offset, count in places]
        iov, resultv = (self._scattered(part, datatype.size) for part in (operands, posted.results))
        self._endpoint.fetch_atomicmsg(
            AtomicMsg(iov, target, remote, op, datatype, self._descs(iov), posted), resultv,
            result_desc=self._descs(resultv), flags=self._flags(operands),
        )  # fmt: skip

    def _compare_vector(self, peer: Peer, target: int, posted: Posted) -> None:
        """Compare-and-swap of elements, about half of which are equal."""
        operands, places, datatype, kind = self._elements(posted)
        compares = self._results(posted, operands.nbytes, _COMPARES)
        posted.expected = b""
        begin = 0
        for offset, count in places:
            here = np.frombuffer(peer.slab, kind, count, offset).copy()
            posted.expected += here.tobytes()
            equal = np.array([self._random.random() < 0.5 for _ in range(count)])
            compares[begin : begin + here.nbytes] = np.where(equal, here, ~here).view(np.uint8)
            there = np.where(equal, operands[begin : begin + here.nbytes].view(kind), here)
            peer.slab[offset : offset + here.nbytes] = there.tobytes()
            begin += here.nbytes
        posted.results = self._results(posted, operands.nbytes)
        remote = [RmaIoc(self._address(peer, offset), count, peer.key) for offset, count in places]
        iov, comparev, resultv = (
            self._scattered(part, datatype.size) for part in (operands, compares, posted.results)
        )
        flags, data = self._data_for(peer)
        self._endpoint.compare_atomicmsg(
            AtomicMsg(iov, target, remote, Op.FI_CSWAP, datatype, self._descs(iov), posted, data), comparev, resultv,
            compare_desc=self._descs(comparev), result_desc=self._descs(resultv), flags=flags | self._flags(operands),
        )  # fmt: skip

    # What the operations are made of

    def _length(self) -> int:
        """Mostly short, sometimes several frames."""
        most = self._random.choices((64, 1024, self._layout.longest), (6, 3, 1))[0]
        return self._random.randint(1, most)

    def _cuts(self, count: int, most: int) -> list[int]:
        """``count`` as a sum of up to ``most`` positive numbers."""
        parts = self._random.randint(1, min(count, most))
        cuts = [0, *sorted(self._random.sample(range(1, count), parts - 1)), count]
        return [end - begin for begin, end in itertools.pairwise(cuts)]

    def _places(self, count: int, size: int, most: int = _MAX_SEGMENTS) -> list[tuple[int, int]]:
        """(offset in the slab, elements) of up to ``most`` places for ``count`` elements of ``size`` bytes."""
        return [(self._random.randint(0, self._layout.slab - size * part), part) for part in self._cuts(count, most)]

    def _address(self, peer: Peer, offset: int) -> int:
        return peer.address + self._layout.slab_of(self.rank) + offset

    def _results(self, posted: Posted, length: int, part: int = _RESULTS) -> Bytes:
        """Return the local memory of an operation."""
        begin = (_PARTS * posted.slot + part) * self._slot_size
        return self._local[begin : begin + length]

    def _operands(self, posted: Posted, data: bytes) -> Bytes:
        operands = self._results(posted, len(data), _OPERANDS)
        operands[:] = np.frombuffer(data, np.uint8)
        return operands

    def _change(self, peer: Peer, posted: Posted) -> tuple[Bytes, int]:
        """Choose new content for a place of the slab, and return its operands and address."""
        ((offset, length),) = self._places(self._length(), 1, 1)
        data = self._random.randbytes(length)
        peer.slab[offset : offset + length] = data
        return self._operands(posted, data), self._address(peer, offset)

    def _elements(self, posted: Posted) -> tuple[Bytes, list[tuple[int, int]], Datatype, str]:
        """Operands of an atomic, their places, and what they are."""
        datatype, kind = self._random.choice(_DATATYPES)
        count = self._random.randint(1, _MAX_ELEMENTS)
        operands = self._operands(posted, self._random.randbytes(count * datatype.size))
        return operands, self._places(count, datatype.size), datatype, kind

    def _scattered(self, memory: Bytes, size: int) -> list[Bytes]:
        """Memory in up to four pieces of whole elements of ``size`` bytes."""
        ends = itertools.accumulate(self._cuts(memory.nbytes // size, _MAX_SEGMENTS))
        return [memory[size * begin : size * end] for begin, end in itertools.pairwise([0, *ends])]

    def _any_desc(self) -> MemoryRegion | None:
        return self._desc if self._random.random() < 0.7 else None

    def _descs(self, buffers: Sequence[Bytes]) -> Sequence[MemoryRegion | None]:
        return [self._any_desc() for _ in buffers]

    def _flags(self, operands: Bytes | None = None) -> OpFlags:
        flags = OpFlags(0)
        if self._random.random() < _OFTEN_MORE:
            flags |= OpFlags.FI_MORE
        if self._random.random() < _OFTEN_FENCED:
            flags |= OpFlags.FI_FENCE
        if operands is not None and operands.nbytes <= INJECT_SIZE and self._random.random() < _OFTEN_INJECTED:
            flags |= OpFlags.FI_INJECT
        return flags

    def _spoil(self, operands: Bytes, flags: OpFlags) -> None:
        """Injected operands may change at once: let them."""
        if flags & OpFlags.FI_INJECT:
            operands[:] = ~operands

    def _data_for(self, peer: Peer) -> tuple[OpFlags, int]:
        """Return a flag and immediate data for some of the messages to a peer."""
        if self._random.random() < _OFTEN_DATA:
            return OpFlags.FI_REMOTE_CQ_DATA, self._next_data(peer)
        return OpFlags(0), 0

    def _next_data(self, peer: Peer) -> int:
        peer.told += 1
        return self.rank << _TO_SOURCE | peer.told - 1
