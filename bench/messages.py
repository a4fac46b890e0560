"""Cycles per message of two whole RTL NICs, from their own trace ports. Exact: equal RTL gives equal figures.

Messages are 8 bytes with a tag, sent from one endpoint to another. The bench measures the receiver's pace at the end
of each message: at the event of a message that meets a receive, and at the sender's completion of a waiting message,
which has no event. The NIC keeps 64 posted receives and 64 waiting messages per endpoint. Bursts measure what uses
these up; long runs send into one buffer that takes message after message. Matching stays in hardware: the lists are
the NIC's.
"""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast
from unittest import mock

import amoeba
import numpy as np
import numpy.typing as npt
from amoeba.core.buffers import allocate
from amoeba.libfabric.objects.constants import FI_ADDR_UNSPEC, BindFlags, MrAccess, OpFlags
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.libfabric.objects.operations.vectors import TaggedMsg
from amoeba.transport.context import Context
from amoeba_model.descriptors import MULTI_ALIGNMENT
from amoeba_model.network import SimulatedDevice
from amoeba_model.parameters import NicParameters
from amoeba_model.trace import Stage

from bench.nic import HOST_LATENCY, LINK_LATENCY, RING, WORD

__all__ = ["DEPTHS", "message_rates", "posted_depths", "random_orders", "waiting_depths"]

DEPTHS = (1, 8, 32, 64)
"""Posted receives, or waiting messages, of which the last one matches."""
_WANTED = 0
"""The tag of messages that a receive waits for; those in front have others."""
_STRIDE = MULTI_ALIGNMENT // WORD
"""Words from one message to the next in a receive for several."""
_PROBES = 48
"""Searches of one measurement."""

Words = npt.NDArray[np.uint64]


@dataclass
class _Pair:
    """An endpoint that sends, and one that receives behind another NIC."""

    fabric: Fabric
    sender: amoeba.Endpoint
    sent: amoeba.CompletionQueue
    receiver: amoeba.Endpoint
    received: amoeba.CompletionQueue
    words: Words
    """Memory of the receiver."""
    region: amoeba.MemoryRegion
    peer: int

    def send(self, tags: Sequence[int]) -> None:
        """Post messages, and ring the doorbell once. Message n is the number n."""
        last = len(tags) - 1
        for number, tag in enumerate(tags):
            flags = OpFlags.FI_MORE if number < last else OpFlags(0)
            self.sender.tsend(np.array([number], np.uint64), self.peer, tag, flags=flags)

    def receive(self, tags: Sequence[int]) -> None:
        """Post receives, the one number n into word n, and ring the doorbell once."""
        last = len(tags) - 1
        for number, tag in enumerate(tags):
            flags = OpFlags.FI_MORE if number < last else OpFlags(0)
            self.receiver.trecv(self.words[number : number + 1], tag, desc=self.region, flags=flags)

    def receive_all(self, count: int) -> None:
        """Post a receive for ``count`` wanted messages."""
        self.receiver.trecv(self.words[: _STRIDE * count], _WANTED, desc=self.region, flags=OpFlags.FI_MULTI_RECV)

    def trace(self) -> None:
        """Forget what happened so far; from now on, tell."""
        for device in self._devices:
            device.tracing = True
            device.trace_events()

    def cycles(self, nic: int, stage: Stage, count: int) -> list[int]:
        """Return the ``count`` cycles of a stage since :meth:`trace`, in order."""
        cycles = [event.cycle for event in self._devices[nic].trace_events() if event.stage is stage]
        assert len(cycles) == count, f"{stage.name} {len(cycles)} times, expected {count}"
        return cycles

    def finish(self, sends: int, receives: int) -> None:
        """Read the queues until so many are done, and no more."""
        while sends > 0 or receives > 0:
            sends -= len(self.sent.read(RING))
            receives -= len(self.received.read(RING))
        assert sends == receives == 0, f"{-sends} sends and {-receives} receives too many"

    def idle(self, cycles: int = 4 * HOST_LATENCY) -> None:
        """Wait until everything in flight has ended."""
        device = self._devices[0]
        end = device.cycles + cycles
        while device.cycles < end:
            device.advance()

    @property
    def _devices(self) -> list[SimulatedDevice]:
        return cast(list[SimulatedDevice], self.fabric.devices)


@contextlib.contextmanager
def _pair(kind: str, words: int = 64) -> Iterator[_Pair]:
    options = {"host_latency": HOST_LATENCY}
    with (
        amoeba.open_cluster([kind, kind], latency=LINK_LATENCY, rtl_options=options) as fabric,
        mock.patch.object(Context, "enable", functools.partialmethod(Context.enable, announce=False)),
    ):
        source, target = fabric.domain(0), fabric.domain(1)
        memory = np.frombuffer(allocate(WORD * words), np.uint64)[:words]
        region = target.mr_reg(memory, MrAccess.FI_RECV)
        sent, received = source.cq_open(), target.cq_open()
        addresses, known = source.av_open(), target.av_open()
        sender = source.endpoint(tx_size=RING, cq=sent, av=addresses)
        both = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
        receiver = target.endpoint(rx_size=2 * RING, cq=received, av=known, cq_flags=both)
        known.insert(sender.getname())
        peer = addresses.insert(receiver.getname())
        fabric.settle()
        yield _Pair(fabric, sender, sent, receiver, received, memory, region, peer)


def _pace(cycles: Sequence[int]) -> float:
    """Cycles each in the middle half."""
    first, last = len(cycles) // 4, len(cycles) - 1 - len(cycles) // 4
    return (cycles[last] - cycles[first]) / (last - first)


def _stream(pair: _Pair, count: int) -> float:
    """Cycles per message of ``count``, for all of which there is one receive."""
    pair.receive_all(count)
    pair.idle()
    pair.trace()
    pair.send([_WANTED] * count)
    pair.finish(count, count)
    assert np.array_equal(pair.words[: _STRIDE * count : _STRIDE], np.arange(count))
    return _pace(pair.cycles(1, Stage.EVENT_WRITTEN, count))


def message_rates(count: int = RING, kind: str = "rtl") -> dict[str, float]:
    """Cycles per message, or receive, if the first of its list matches: of ``count`` into one receive, else of 64."""
    burst = NicParameters().receives
    tags = [_WANTED] * burst
    rates = {}
    with _pair(kind, _STRIDE * count) as pair:
        rates["into one receive for all"] = _stream(pair, count)
    with _pair(kind) as pair:
        pair.receive(tags)
        pair.idle()
        pair.trace()
        pair.send(tags)
        pair.finish(burst, burst)
        rates["into posted receives"] = _pace(pair.cycles(1, Stage.EVENT_WRITTEN, burst))
        pair.trace()
        pair.send(tags)
        pair.finish(burst, 0)
        rates["unexpected"] = _pace(pair.cycles(0, Stage.COMPLETION_WRITTEN, burst))
        pair.words[:] = 0
        pair.trace()
        pair.receive(tags)
        pair.finish(0, burst)
        rates["receives that take waiting messages"] = _pace(pair.cycles(1, Stage.EVENT_WRITTEN, burst))
        assert np.array_equal(pair.words, np.arange(burst))
    return rates


def posted_depths(depths: Sequence[int] = DEPTHS, count: int = 512, kind: str = "rtl") -> dict[int, float]:
    """Cycles per message if only the last of so many posted receives wants it: all are looked at."""
    rates = {}
    for depth in depths:
        with _pair(kind, _STRIDE * count) as pair:
            pair.receive([_WANTED + 1] * (depth - 1))
            rates[depth] = _stream(pair, count)
    return rates


def waiting_depths(depths: Sequence[int] = DEPTHS, kind: str = "rtl") -> dict[int, float]:
    """Cycles per search (FI_PEEK, which takes nothing off the list) for the last of so many waiting messages."""
    rates = {}
    for depth in depths:
        with _pair(kind) as pair:
            pair.send([_WANTED + 1] * (depth - 1) + [_WANTED])
            pair.finish(depth, 0)
            pair.trace()
            for number in range(_PROBES):
                more = OpFlags.FI_MORE if number < _PROBES - 1 else OpFlags(0)
                search = TaggedMsg([pair.words[:1]], FI_ADDR_UNSPEC, _WANTED, desc=[pair.region])
                pair.receiver.trecvmsg(search, OpFlags.FI_PEEK | more)
            pair.finish(0, _PROBES)
            assert pair.words[0] == depth - 1
            rates[depth] = _pace(pair.cycles(1, Stage.EVENT_WRITTEN, _PROBES))
    return rates


def random_orders(depths: Sequence[int] = DEPTHS[1:], kind: str = "rtl") -> dict[int, tuple[float, float]]:
    """Measure cycles per message that takes its receive, and per receive that takes its message, in random order.

    Matched entries leave the list, so that a quarter of its first length is looked at on average.
    """
    rates = {}
    for depth in depths:
        order = [int(tag) for tag in np.random.default_rng(depth).permutation(depth)]
        with _pair(kind) as pair:
            paces = []
            for first, second in ((pair.receive, pair.send), (pair.send, pair.receive)):
                first(range(depth))
                pair.idle()
                pair.trace()
                second(order)
                pair.finish(depth, depth)
                cycles = pair.cycles(1, Stage.EVENT_WRITTEN, depth)
                paces.append((cycles[-1] - cycles[0]) / (depth - 1))
            rates[depth] = paces[0], paces[1]
    return rates
