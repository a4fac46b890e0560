"""A memory node between its clocks and its PHY: all of a board that belongs to no vendor."""

from amaranth.hdl import Cat, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.boards.block_memory import BlockMemory
from amoeba_hw.boards.boot_list import BootList
from amoeba_hw.boards.gmii import GmiiSignature
from amoeba_hw.boards.mac_receive import MacReceive
from amoeba_hw.boards.mac_transmit import MacTransmit
from amoeba_hw.boards.responder import Responder
from amoeba_hw.host.axi import beat_layout
from amoeba_hw.nic import Nic
from amoeba_hw.stream import RoundRobinArbiter

__all__ = ["MemoryNode"]


class MemoryNode(wiring.Component):
    """A NIC, its memory, its boot list and its MAC.

    Clock domains: ``sync`` of the NIC, ``transmit`` and ``receive`` of the PHY, of 125 MHz each.

    Parameters
    ----------
    parameters : NicParameters
        Of a NIC of 128 bits without an initiator.
    words : sequence of int
        Boot list: :func:`amoeba_model.boot_list.boot_words`.
    memory : int
        Bytes of memory.
    nic : component, optional
        With the ports ``bar``, ``host``, ``rx`` and ``tx`` of Nic, which it is otherwise.

    Members
    -------
    transmit, receive : GMII
    done, failed : Out(1) in ``sync``
        Of the boot list.
    """

    def __init__(self, parameters, words, memory, nic=None):
        if parameters.data_width != 128 or parameters.has_initiator:
            raise ValueError(
                f"Expected a NIC of 128 bits without an initiator, got {parameters.data_width} bits "
                f"and {parameters.peers} peers"
            )
        self._width = parameters.data_width
        self._nic = nic or Nic(parameters)
        self._boot = BootList(words)
        self._memory = BlockMemory(self._width, memory)
        super().__init__(
            {
                "transmit": Out(GmiiSignature()),
                "receive": In(GmiiSignature()),
                "done": Out(1),
                "failed": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.nic, m.submodules.boot, m.submodules.memory = nic, boot, memory = (
            self._nic, self._boot, self._memory,
        )  # fmt: skip
        m.submodules.mac_receive = mac_receive = MacReceive(self._width)
        m.submodules.mac_transmit = mac_transmit = MacTransmit(self._width)
        m.submodules.responder = responder = Responder()
        m.submodules.sent = sent = RoundRobinArbiter(beat_layout(self._width), 2)
        wiring.connect(m, boot.bus, nic.bar)
        wiring.connect(m, nic.host, memory.bus)
        wiring.connect(m, wiring.flipped(self.receive), mac_receive.i)
        wiring.connect(m, mac_receive.o, responder.i)
        wiring.connect(m, responder.o, nic.rx)
        wiring.connect(m, mac_transmit.o, wiring.flipped(self.transmit))
        for index, source in enumerate((nic.tx, responder.answers)):
            m.d.comb += [
                sent.i[index].valid.eq(source.tvalid),
                Value.cast(sent.i[index].p).eq(Cat(source.tdata, source.tkeep, source.tlast)),
                source.tready.eq(sent.i[index].ready),
            ]
        out = mac_transmit.i
        m.d.comb += [
            Cat(out.tdata, out.tkeep, out.tlast).eq(Value.cast(sent.o.p)),
            out.tvalid.eq(sent.o.valid),
            sent.o.ready.eq(out.tready),
            responder.mac.eq(boot.mac),
            responder.ip.eq(boot.ip),
            responder.enable.eq(boot.done),
            self.done.eq(boot.done),
            self.failed.eq(boot.failed),
        ]
        return m
