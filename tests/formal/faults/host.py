"""Faults of the host's requests, event counters' writes and PCI Express."""

from amoeba_hw.host import counter_writer, hubs, line_order, packed_writer, ring_writer, write_fence
from amoeba_hw.pcie import (
    completer,
    completion_buffer,
    function_reset,
    msix_table,
    read_tags,
    request_merger,
    write_requester,
)

from tests.formal import counters, draining, host_requests, pcie, write_order

__all__ = ["FAULTS", "SPECIFICATIONS"]

FAULTS = {
    "a beat has the number of the client behind it": (
        hubs,
        "WriteHub",
        "spare.i.p.user.eq(Array(self._users)[arbiter.grant])",
        "spare.i.p.user.eq(self._users[0])",
    ),
    "a burst has its place before its last beat": (hubs, "WriteHub", "enters & arbiter.o.p.last", "enters"),
    "a command is done as its last beat is taken": (
        packed_writer,
        "PackedWriter",
        "ordered.eq(self.writes_ordered)",
        "ordered.eq(bursts.i.valid)",
    ),
    "an entry is written as its last beat is taken": (
        ring_writer,
        "RingWriter",
        'm.next = "ORDER"',
        'm.d.comb += entry.ready.eq(1)\n                        m.next = "PLACE"',
    ),
    "a read of a line waits for the burst of the read before it": (
        line_order,
        "LineOrder",
        "follows & pending.waits(before)",
        "follows & pending.waits(number)",
    ),
    "a read of an answer follows what was written when the read before it came": (
        line_order,
        "LineOrder",
        "with m.If(looked_at.i.ready):",
        "with m.If(leaving.i.ready & looked_at.o.valid):",
    ),
    "orders in consecutive cycles start from the same count": (
        counter_writer,
        "CounterWriter",
        "transparent_for=(sum_port,)",
        "",
    ),
    "whoever names a counter advances it": (
        counter_writer,
        "CounterWriter",
        "~self._restricted.bit_select(number, 1)",
        "1",
    ),
    "a cleared counter goes on": (
        counter_writer,
        "CounterWriter",
        "Mux(self._advanced.bit_select(number, 1), read.data, 0)",
        "read.data",
    ),
    "a counter is written once and never again": (
        counter_writer,
        "CounterWriter",
        "self._queued.bit_select(numbers.payload, 1).eq(0)",
        "self._queued.bit_select(numbers.payload, 1).eq(1)",
    ),
    "a write waits for the answers before it": (
        completer,
        "Completer",
        "m.If(self.requests.valid & ~self.hold)",
        "m.If(self.requests.valid & ~self.hold & (waiting.level == 0))",
    ),
    "a reset does not wait for reads": (
        function_reset,
        "FunctionReset",
        "m.If(self.merger_idle & self.reads_idle)",
        "m.If(self.merger_idle)",
    ),
    "a vector is masked after it was chosen": (
        msix_table,
        "MsixTable",
        "with m.If(sendable.bit_select(vector, 1)):",
        "with m.If(1):",
    ),
    "a tag of a read that was given up is used again": (
        read_tags,
        "ReadTags",
        "self._active | self._lost",
        "self._active",
    ),
    "a read is started that there is no room for": (
        completion_buffer,
        "CompletionBuffer",
        "used + needed <= self._lines",
        "used < self._lines",
    ),
    "writes are behind a fence before they have settled": (
        write_fence,
        "WriteFence",
        "with m.Elif(~ahead[-1]):",
        "with m.Else():",
    ),
    "a question withdrawn is answered": (
        write_fence,
        "WriteFence",
        'm.next = "SETTLE"\n                with m.If(~self.ask):\n                    m.next = "REST"',
        'm.next = "SETTLE"',
    ),
    "a read passes the write on offer": (
        request_merger,
        "RequestMerger",
        "self.accepted + self.waiting",
        "self.accepted",
    ),
    "a write has settled before it has left": (
        write_requester,
        "WriteRequester",
        "self.settled.eq(runs.o.p.number)",
        "self.settled.eq(runs.o.p.number + 1)",
    ),
}
SPECIFICATIONS = {
    "WriteHub": (write_order, "WriteHubSpec", "bmc", 5),
    "PackedWriter": (write_order, "PackedWriterOrderSpec", "bmc", 8),
    "RingWriter": (write_order, "RingWriterOrderSpec", "bmc", 8),
    "LineOrder": (write_order, "LineOrderSpec", "bmc", 9),
    "WriteFence": (draining, "WriteFenceSpec", "bmc", 10),
    "CounterWriter": (counters, "CounterWriterSpec", "bmc", 11),
    "Completer": (host_requests, "CompleterSpec", "bmc", 14),
    "FunctionReset": (host_requests, "FunctionResetSpec", "bmc", 20),
    "MsixTable": (host_requests, "MsixSpec", "bmc", 12),
    "ReadTags": (pcie, "ReadTagsSpec", "bmc", 8),
    "CompletionBuffer": (pcie, "CompletionCreditsSpec", "bmc", 7),
    "RequestMerger": (pcie, "RequestOrderSpec", "bmc", 7),
    "WriteRequester": (pcie, "WrittenBytesSpec", "bmc", 6),
}
