"""Faults of the host's requests, event counters' writes and PCI Express."""

from amoeba_hw.host import counter_writer, hubs, line_order
from amoeba_hw.pcie import (
    completer,
    completion_buffer,
    function_reset,
    msix_table,
    read_tags,
    request_merger,
    write_requester,
)

from tests.formal import counters, host_requests, pcie, write_order

__all__ = ["FAULTS", "SPECIFICATIONS"]

FAULTS = {
    "a beat has the number of the client behind it": (
        hubs,
        "WriteHub",
        "with m.If(output.i.ready):",
        "with m.If(1):",
    ),
    "a read of a line passes the write on offer": (
        line_order,
        "LineOrder",
        "pending.waits | (self.write_valid & (pending.line == pending.asked))",
        "pending.waits",
    ),
    "a read of an answer passes the write that was on offer": (
        line_order,
        "LineOrder",
        "Mux(writes_now, pending.number, last_written)",
        "last_written",
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
    "LineOrder": (write_order, "LineOrderSpec", "bmc", 7),
    "CounterWriter": (counters, "CounterWriterSpec", "bmc", 11),
    "Completer": (host_requests, "CompleterSpec", "bmc", 14),
    "FunctionReset": (host_requests, "FunctionResetSpec", "bmc", 20),
    "MsixTable": (host_requests, "MsixSpec", "bmc", 12),
    "ReadTags": (pcie, "ReadTagsSpec", "bmc", 8),
    "CompletionBuffer": (pcie, "CompletionCreditsSpec", "bmc", 7),
    "RequestMerger": (pcie, "RequestOrderSpec", "bmc", 7),
    "WriteRequester": (pcie, "WrittenBytesSpec", "bmc", 6),
}
