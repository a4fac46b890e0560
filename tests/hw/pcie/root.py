"""The host's end of a link in testbenches: memory behind transaction layer packets, and the rules for the NIC's side.

Rules and completions are written from the PCI Express Base Specification (2.2.7, 2.2.9, 2.3.1), not from the design.
"""

import random
from collections import deque

import cocotb
from amoeba_hw.pcie.interfaces import completion_beat, request_beat
from amoeba_model.tlp import CompletionStatus, RequestKind
from amoeba_sim.cocotb_streams import StreamSink, StreamSource
from cocotb.triggers import RisingEdge

__all__ = ["PcieRoot", "Request"]

PAGE = 4096
CONTIGUOUS_FIRST = {0b1111, 0b1110, 0b1100, 0b1000}
CONTIGUOUS_LAST = {0b1111, 0b0111, 0b0011, 0b0001}


class Request:
    """One request of the NIC; fails the test if it breaks a rule that concerns it alone."""

    def __init__(self, beats, width, max_payload, max_read_request):
        header = beats[0]["header"]
        self.kind, self.address, self.dwords = header["kind"], header["address"], header["dwords"]
        self.first_be, self.last_be = header["first_be"], header["last_be"]
        self.tag, self.user = header["tag"], header["user"]
        self.is_write = self.kind == RequestKind.MEMORY_WRITE
        assert self.kind in list(RequestKind), self
        assert self.address % 4 == 0, self
        assert 1 <= self.dwords <= 1024, self
        assert self.address % PAGE + 4 * self.dwords <= PAGE, f"{self} crosses 4 KiB"
        limit = max_payload if self.is_write else max_read_request
        assert 4 * self.dwords <= limit, f"{self} is longer than {limit} bytes"
        assert self.first_be != 0, self
        assert (self.last_be != 0) == (self.dwords > 1), self
        if self.dwords > 1:
            assert self.first_be in CONTIGUOUS_FIRST, self
            assert self.last_be in CONTIGUOUS_LAST, self
        expected = -(-32 * self.dwords // width) if self.is_write else 1
        assert len(beats) == expected, f"{self} has {len(beats)} beats"
        assert [beat["first"] for beat in beats] == [1] + [0] * (expected - 1), self
        payload = b"".join(beat["data"].to_bytes(width // 8, "little") for beat in beats)
        self.payload = payload[: 4 * self.dwords] if self.is_write else b""

    def __repr__(self):
        return (
            f"{'write' if self.is_write else 'read'} of {self.dwords} DWs at {self.address:#x}, "
            f"byte enables {self.first_be:04b} {self.last_be:04b}, tag {self.tag}"
        )

    @property
    def enables(self):
        """A bool for each byte of the DWs."""
        words = [0b1111] * self.dwords
        words[0] = self.first_be
        if self.dwords > 1:
            words[-1] = self.last_be
        return [bool(word >> byte & 1) for word in words for byte in range(4)]

    @property
    def span(self):
        """The addresses from the first byte enabled to the last."""
        enabled = [index for index, enable in enumerate(self.enables) if enable]
        return range(self.address + enabled[0], self.address + enabled[-1] + 1)


class PcieRoot:
    """Takes requests, does them in the order in which they come, and answers reads in any order and any pieces.

    Parameters
    ----------
    dut : cocotb handle
    requests, completions : str
        Names of the streams.
    width : int
    memory : HostMemory
        With ``read`` and ``write`` refusing by PermissionError.
    pace : callable
        Makes the pace of each stream.
    max_payload, max_read_request, boundary : int
        Bytes. They may be changed.
    tags : int
        The NIC may use.
    latency : int
        Cycles before a read is answered.
    """

    def __init__(
        self, dut, requests, completions, width, memory, pace, *, max_payload=128, max_read_request=128, boundary=64,
        tags=32, latency=20, seldom_split=False,
    ):  # fmt: skip
        self.dut, self.width, self.memory = dut, width, memory
        self.max_payload, self.max_read_request, self.boundary = max_payload, max_read_request, boundary
        self.tags, self.latency, self.seldom_split = tags, latency, seldom_split
        self.sink = StreamSink(dut, requests, request_beat(width), pace=pace())
        self.source = StreamSource(dut, completions, completion_beat(width), pace=pace())
        self.requests = []
        """All so far. A testbench may empty it."""
        self.waiting = {}
        """By tag: the completions that are still to be sent, and when they may be."""
        self.most_waiting = 0
        self.fate = lambda request: "answer"
        """The fate of a read: answer, UR, CA, UR behind data, poison, wrong count, wrong address, timed out (the
        link's own logic says so), late (held back) or swallow."""
        self.held = deque()
        """Completions that come only when the testbench says so: of reads whose fate is late."""
        cocotb.start_soon(self._take())
        cocotb.start_soon(self._answer())

    async def _take(self):
        while True:
            beats = await self.sink.receive(1)
            while not beats[-1]["last"]:
                beats += await self.sink.receive(1)
            request = Request(beats, self.width, self.max_payload, self.max_read_request)
            self.requests.append(request)
            if request.is_write:
                await self._write(request)
            else:
                assert request.tag < self.tags, request
                assert request.tag not in self.waiting, f"{request} uses a tag again"
                self.waiting[request.tag] = deque(await self._completions(request))
                self.most_waiting = max(self.most_waiting, len(self.waiting))
                self._settle(request.tag)

    async def _write(self, request):
        try:
            for index, enable in enumerate(request.enables):
                if enable:
                    await self.memory.write(request.address + index, request.payload[index : index + 1])
        except PermissionError:
            pass

    async def _completions(self, request):
        """(header, payload) of each completion of a read."""
        fate, span = self.fate(request), request.span
        try:
            content = await self.memory.read(span.start, len(span))
        except PermissionError:
            fate = "UR"
        if fate in ("UR", "CA", "timed out"):
            status = {"UR": CompletionStatus.UR, "CA": CompletionStatus.CA, "timed out": CompletionStatus.TIMED_OUT}
            return [self._completion(request, span, b"", status=status[fate])]
        content = bytes(span.start % 4) + content + bytes(-span.stop % 4)
        parts, start = [], span.start
        while start < span.stop:
            ends = [
                end
                for end in range((start // self.boundary + 1) * self.boundary, span.stop, self.boundary)
                if end - start // 4 * 4 <= self.max_payload
            ]
            if span.stop - start // 4 * 4 <= self.max_payload:
                ends.append(span.stop)
            stop = ends[-1] if self.seldom_split and random.random() < 0.8 else random.choice(ends)
            first = start // 4 * 4 - span.start // 4 * 4
            payload = content[first : first + -(-(stop - start // 4 * 4) // 4) * 4]
            parts.append(self._completion(request, range(start, span.stop), payload))
            start = stop
        victim = random.choice(parts)[0]
        if fate == "poison":
            victim["poisoned"] = 1
        elif fate == "wrong count":
            victim["byte_count"] += 1 if victim["byte_count"] < PAGE else -1
        elif fate == "wrong address":
            victim["lower_address"] ^= 64
        elif fate == "UR behind data":
            parts[-1] = self._completion(request, span, b"", status=CompletionStatus.UR)
        elif fate in ("late", "swallow"):
            if fate == "late":
                self.held.append((request.tag, parts))
            return []
        else:
            assert fate == "answer", fate
        return parts

    def _completion(self, request, rest, payload, status=CompletionStatus.SC):
        header = {
            "tag": request.tag,
            "status": int(status),
            "poisoned": 0,
            "dwords": len(payload) // 4,
            "byte_count": len(rest),
            "lower_address": rest.start % 128,
        }
        return header, payload

    def _settle(self, tag):
        """A read without completions is over as far as the root knows, but its tag is not."""
        if not self.waiting[tag]:
            self.waiting[tag] = None

    def release_late(self):
        """Let completions held back come now."""
        for tag, parts in self.held:
            self.waiting[tag] = deque(parts)
        self.held.clear()

    async def _answer(self):
        age = 0
        while True:
            await RisingEdge(self.dut.clk)
            age += 1
            ready = [tag for tag, parts in self.waiting.items() if parts]
            if not ready or self.source.left > 4 or age < self.latency:
                if not ready:
                    age = 0
                continue
            tag = random.choice(ready)
            self.send(*self.waiting[tag].popleft())
            if not self.waiting[tag]:
                # When the last beat is in flight, the NIC may use the tag again.
                del self.waiting[tag]

    def send(self, header, payload):
        """Queue a completion."""
        size = self.width // 8
        pieces = [payload[at : at + size] for at in range(0, len(payload), size)] or [b""]
        for index, piece in enumerate(pieces):
            junk = random.randbytes(size - len(piece))
            self.source.send(
                {
                    "header": header if index == 0 else {name: random.getrandbits(1) for name in header},
                    "data": int.from_bytes(piece + junk, "little"),
                    "first": int(index == 0),
                    "last": int(index == len(pieces) - 1),
                }
            )
