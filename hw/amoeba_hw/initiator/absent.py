"""The place of the initiator in a NIC without one."""

from amaranth.hdl import Module
from amaranth.lib import wiring

from amoeba_hw.initiator.initiator import initiator_members

__all__ = ["AbsentInitiator"]


class AbsentInitiator(wiring.Component):
    """Has the ports of an Initiator and takes what comes, one transfer a cycle; nothing comes of doorbells.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    As of :class:`amoeba_hw.initiator.initiator.Initiator`.
    count_dropped_response : out
        Pulse for each acknowledgement and NACK, since none can be outstanding. All other outputs stay zero.
    """

    def __init__(self, parameters):
        super().__init__(initiator_members(parameters))

    def elaborate(self, platform):
        m = Module()
        for taken in (
            self.doorbells,
            self.completion_heads,
            self.arms,
            self.peer_stores,
            self.descriptor_data,
            self.operands,
            self.compares,
            self.responses,
            self.response_payload,
        ):
            m.d.comb += taken.ready.eq(1)
        m.d.comb += self.count_dropped_response.eq(self.responses.valid)
        return m
