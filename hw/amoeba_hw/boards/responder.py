"""Makes a node an ordinary station: it answers ARP and ping."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.boards.arp_answer import ArpAnswer
from amoeba_hw.boards.echo_answer import EchoAnswer
from amoeba_hw.boards.network_fields import BEAT_BYTES
from amoeba_hw.commit_queue import CommitQueue
from amoeba_hw.host.axi import AxiStreamSignature, beat_layout

__all__ = ["Responder"]

_WIDTH = 8 * BEAT_BYTES


class Responder(wiring.Component):
    """Passes frames on to the NIC, and answers those among them that ask for the node by ARP or ICMP echo.

    The NIC drops such frames itself. An answer is built while its request passes and leaves once the request is
    whole. Further requests within ``interval`` cycles, and those longer than the queue, are not answered: a storm
    takes no more than this of the link, and delays no frame for the NIC.

    Parameters
    ----------
    interval : int
        Cycles from one answer to the next, at least 1.
    depth : int
        Beats of the longest answer: a power of two.

    Members
    -------
    i, o : AXI4-Stream of 128 bits
        Latency zero; ``i.tready`` is ``o.tready``. Bytes are packed, and only a last beat has fewer than 16.
    answers : AXI4-Stream of 128 bits
    mac, ip : In
        The node's addresses.
    enable : In(1)
        Low: nothing is answered.
    """

    def __init__(self, interval=4096, depth=128):
        if interval < 1:
            raise ValueError(f"Expected at least one cycle from one answer to the next, got {interval}")
        self._interval = interval
        self._depth = depth
        super().__init__(
            {
                "i": In(AxiStreamSignature(_WIDTH)),
                "o": Out(AxiStreamSignature(_WIDTH)),
                "answers": Out(AxiStreamSignature(_WIDTH)),
                "mac": In(48),
                "ip": In(32),
                "enable": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.arp, m.submodules.echo = arp, echo = ArpAnswer(), EchoAnswer()
        m.submodules.queue = queue = CommitQueue(beat_layout(_WIDTH), self._depth)
        moves, index, lost = Signal(), Signal(8), Signal()
        pause = Signal(range(self._interval + 1))
        is_arp = Signal()
        wiring.connect(m, wiring.flipped(self.i), wiring.flipped(self.o))
        m.d.comb += moves.eq(self.i.tvalid & self.i.tready)
        for part in (arp, echo):
            m.d.comb += [
                part.beat.eq(self.i.tdata),
                part.index.eq(index),
                part.count.eq(sum(self.i.tkeep[byte] for byte in range(BEAT_BYTES))),
                part.moves.eq(moves),
                part.last.eq(self.i.tlast),
                part.mac.eq(self.mac),
                part.ip.eq(self.ip),
            ]
        # Byte 13 tells ARP from IPv4 in the first beat, which both change alike.
        with m.If(moves & (index == 0)):
            m.d.sync += is_arp.eq(self.i.tdata[8 * 13 : 8 * 14] == 6)
        answered = (arp.good | echo.good) & ~lost & queue.i.ready & (pause == 0) & self.enable
        m.d.comb += [
            queue.i.valid.eq(moves & ~lost),
            queue.i.p.data.eq(Mux(is_arp & (index != 0), arp.answer, echo.answer)),
            queue.i.p.keep.eq(self.i.tkeep),
            queue.i.p.last.eq(self.i.tlast),
            queue.commit.eq(moves & self.i.tlast & answered),
            queue.rollback.eq(moves & self.i.tlast & ~answered),
            Cat(self.answers.tdata, self.answers.tkeep, self.answers.tlast).eq(Value.cast(queue.o.p)),
            self.answers.tvalid.eq(queue.o.valid),
            queue.o.ready.eq(self.answers.tready),
        ]
        with m.If(moves):
            m.d.sync += [
                index.eq(Mux(self.i.tlast, 0, Mux(index == 255, 255, index + 1))),
                lost.eq(~self.i.tlast & (lost | ~queue.i.ready)),
            ]
        with m.If(queue.commit):
            m.d.sync += pause.eq(self._interval - 1)
        with m.Elif(pause != 0):
            m.d.sync += pause.eq(pause - 1)
        return m
