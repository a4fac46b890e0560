"""The target: from received requests to answers."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped

from amoeba_hw.interfaces import CONTEXT, FRAME_HEADER, KEY_STORE, MEMORY_REQUEST, TRACE_SLOT, packet_beat
from amoeba_hw.stream import Queue, connect_streams
from amoeba_hw.target.checker import RequestChecker
from amoeba_hw.target.key_table import KeyTable
from amoeba_hw.target.operand_splitter import OperandSplitter
from amoeba_hw.target.pdc_table import PdcTable
from amoeba_hw.target.responder import Responder

__all__ = ["Target"]

_MEMORY_REQUESTS = 4


class Target(wiring.Component):
    """Executes or refuses every request, in order, with the help of the memory engine.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    requests : FRAME_HEADER stream
    request_payload : :func:`packet_beat` stream
        One packet of ``payload_length`` bytes for each header that has any, in order. May wait for its header's
        checks, never for another request's.
    contexts : array of CONTEXT, In
    key_stores : KEY_STORE stream
        Taken in every cycle.
    memory_requests : MEMORY_REQUEST stream
        Requests that passed all checks.
    operands, compares : :func:`packet_beat` streams
        One packet of ``length`` bytes for each of them with ``has_operand`` or ``has_compare``, in order.
    results : :func:`packet_beat` stream
        One packet for each of them, in order: see :class:`~amoeba_hw.target.responder.Responder`.
    responses : FRAME_HEADER stream
    response_payload : :func:`packet_beat` stream
        The answers: one packet of ``payload_length`` bytes for each header that has any.
    trace_request_checked : TRACE_SLOT
        For each request that a PDC accepted.
    count_requests_received, count_refused_requests, count_dropped_pdc, count_dropped_sequence : Out(1)

    Three cycles per request, and a request is on ``memory_requests`` 6 cycles after its header was offered, if its
    key is in the first slot and its PDC needs no search.
    """

    def __init__(self, parameters):
        self._parameters = parameters
        beat = packet_beat(parameters.data_width)
        super().__init__(
            {
                "requests": In(stream.Signature(FRAME_HEADER)),
                "request_payload": In(stream.Signature(beat)),
                "contexts": In(CONTEXT).array(parameters.contexts),
                "key_stores": In(stream.Signature(KEY_STORE)),
                "memory_requests": Out(stream.Signature(MEMORY_REQUEST)),
                "operands": Out(stream.Signature(beat)),
                "compares": Out(stream.Signature(beat)),
                "results": In(stream.Signature(beat)),
                "responses": Out(stream.Signature(FRAME_HEADER)),
                "response_payload": Out(stream.Signature(beat)),
                "trace_request_checked": Out(TRACE_SLOT),
                "count_requests_received": Out(1),
                "count_refused_requests": Out(1),
                "count_dropped_pdc": Out(1),
                "count_dropped_sequence": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.pdcs = pdcs = PdcTable(self._parameters.target_pdcs)
        m.submodules.keys = keys = KeyTable(self._parameters.keys)
        m.submodules.checker = checker = RequestChecker(self._parameters)
        m.submodules.splitter = splitter = OperandSplitter(self._parameters)
        m.submodules.responder = responder = Responder(self._parameters)
        m.submodules.waiting = waiting = Queue(MEMORY_REQUEST, _MEMORY_REQUESTS)
        for producer, consumer in (
            (flipped(self.requests), pdcs.requests),
            (pdcs.sequenced, keys.requests),
            (flipped(self.key_stores), keys.stores),
            (keys.located, checker.located),
            (flipped(self.request_payload), splitter.payload),
            (waiting.o, flipped(self.memory_requests)),
            (splitter.operands, flipped(self.operands)),
            (splitter.compares, flipped(self.compares)),
            (flipped(self.results), responder.results),
            (responder.responses, flipped(self.responses)),
            (responder.response_payload, flipped(self.response_payload)),
        ):
            connect_streams(m, producer, consumer)
        m.d.comb += [
            checker.contexts[index].eq(self.contexts[index]) for index in range(self._parameters.contexts)
        ]
        m.d.comb += [
            self.count_dropped_pdc.eq(pdcs.count_dropped_pdc),
            self.count_dropped_sequence.eq(pdcs.count_dropped_sequence),
            self.count_refused_requests.eq(responder.count_refused_requests),
        ]
        self._elaborate_dispatch(m, checker.checked, splitter.jobs, waiting.i, responder.answers)
        return m

    def _elaborate_dispatch(self, m, checked, jobs, memory_requests, answers):
        """Hands a checked request to all that it concerns at once; their ``ready`` depends on nothing here."""
        request = checked.p
        leaves = Signal()
        accepted = Signal()
        event = self.trace_request_checked.event
        m.d.comb += [
            checked.ready.eq(jobs.ready & memory_requests.ready & answers.ready),
            leaves.eq(checked.valid & checked.ready),
            accepted.eq(leaves & ~request.dropped),
            jobs.valid.eq(leaves & request.has_payload),
            jobs.p.eq(request.job),
            memory_requests.valid.eq(leaves & request.answer.executed),
            memory_requests.p.eq(request.memory),
            answers.valid.eq(accepted),
            answers.p.eq(request.answer),
            self.count_requests_received.eq(accepted),
            self.trace_request_checked.valid.eq(accepted),
            event.psn.eq(request.answer.psn),
            event.pdc.eq(request.answer.spdcid),
            event.context.eq(request.context),
            event.status.eq(request.answer.return_code),
        ]
