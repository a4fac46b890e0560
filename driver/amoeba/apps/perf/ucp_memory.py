"""Tests of UCP on the other side's memory: put, get, atomics."""

from collections import deque
from typing import Any

import amoeba.ucp as ucp
from amoeba.apps.perf.meter import Meter
from amoeba.apps.perf.sides import Steps
from amoeba.apps.perf.ucp_side import RING, UcpSide

__all__ = ["OPERATIONS", "Operations", "PutPingPong"]


class PutPingPong:
    """Messages that are put where the other side looks for them."""

    def __init__(self, side: UcpSide) -> None:
        self._side = side
        self._contents = [side.pieces(content, side.plan.layouts[0]) for content in side.payloads.contents]
        self._param = _param(side, self._contents[0][2], cb=self._over)
        self._under_way = 0
        self._memory = memoryview(side.memory)[: side.plan.size]

    def send(self, number: int) -> Steps:
        while self._under_way:
            yield
        buffer, count, _ = self._contents[number % len(self._contents)]
        side = self._side
        self._under_way += 1
        if ucp.ucp_put_nbx(side.ep, buffer, count, side.remote, side.rkey, self._param) is None:
            self._under_way -= 1

    def receive(self, number: int) -> Steps:
        """The last byte is looked at, and with verification everything: what is not all there is waited for."""
        memory, content, last = self._memory, self._side.payloads.of(number), self._side.plan.size - 1
        while memory[last] != content[last] or (self._side.plan.verify and bytes(memory) != content):
            yield

    def finish(self) -> Steps:
        yield from self._side.flushed()

    def _over(self, request: Any, status: Any, user_data: Any) -> None:
        self._under_way -= 1
        self._side.check(status, "a put")


class Operations:
    """Operations of the client, of which a window is under way; the server does nothing."""

    def __init__(self, side: UcpSide) -> None:
        self.side = side
        self.plan = side.plan
        self.verify = side.plan.verify
        self.total = side.plan.warmup + side.plan.iterations
        self.limit = side.plan.window
        self.free = deque(range(self.limit))
        """Places of operations whose requests are not over."""

    def prepare_target(self) -> None:
        """Fill the server's memory."""

    def post(self, number: int) -> None:
        """Post the operation of this number."""
        raise NotImplementedError

    def verify_source(self) -> None:
        """Note what is wrong at the client, at the end."""

    def verify_target(self) -> None:
        """Note what is wrong in the server's memory, at the end."""

    def run(self, meter: Meter) -> Steps:
        """All operations of the client."""
        number, lane, limit = 0, self.side.ep.memory, self.limit
        for count, meant in ((self.plan.warmup, False), (self.plan.iterations, True)):
            if meant:
                meter.start()
            for _ in range(count):
                while lane.posted - lane.done >= limit or not self.free:
                    yield
                self.post(number)
                number += 1
                if meant:
                    meter.update()
            while len(self.free) < self.plan.window:
                yield
            yield from self.side.flushed()
            if meant:
                meter.finish()
        if self.verify:
            self.verify_source()


class _Put(Operations):
    def __init__(self, side: UcpSide) -> None:
        super().__init__(side)
        self.limit = side.places
        self._contents = [side.pieces(content, side.plan.layouts[0]) for content in side.payloads.contents]
        self._param = _param(side, self._contents[0][2], cb=self._over)

    def post(self, number: int) -> None:
        side = self.side
        buffer, count, _ = self._contents[number % len(self._contents)]
        address = side.remote + number % self.limit * self.plan.size
        if ucp.ucp_put_nbx(side.ep, buffer, count, address, side.rkey, self._param) is not None:
            self.free.popleft()

    def _over(self, request: Any, status: Any, user_data: Any) -> None:
        self.free.append(0)
        self.side.check(status, "a put")

    def verify_target(self) -> None:
        size = self.plan.size
        for number in range(max(self.total - self.limit, 0), self.total):
            place = number % self.limit * size
            found = bytes(memoryview(self.side.memory)[place : place + size])
            self.side.findings.expect(found, self.side.payloads.of(number), f"put {number}")


class _Get(Operations):
    def __init__(self, side: UcpSide) -> None:
        super().__init__(side)
        self._buffers = [bytearray(self.plan.size) for _ in range(self.plan.window)]
        self._pieces = [side.pieces(buffer, side.plan.layouts[0]) for buffer in self._buffers]
        self._params = [
            _param(side, self._pieces[0][2], cb=self._over, user_data=place) for place in range(self.plan.window)
        ]
        self._numbers = [0] * self.plan.window

    def prepare_target(self) -> None:
        size, memory = self.plan.size, memoryview(self.side.memory)
        for place in range(self.side.places):
            memory[place * size : (place + 1) * size] = self.side.payloads.of(place)

    def post(self, number: int) -> None:
        side, place = self.side, self.free.popleft()
        source = number % side.places
        self._numbers[place] = source
        buffer, count, _ = self._pieces[place]
        address = side.remote + source * self.plan.size
        ucp.ucp_get_nbx(side.ep, buffer, count, address, side.rkey, self._params[place])

    def _over(self, request: Any, status: Any, place: int) -> None:
        self.side.check(status, "a get")
        if self.verify:
            source = self._numbers[place]
            if self._buffers[place] != (content := self.side.payloads.of(source)):
                self.side.findings.expect(self._buffers[place], content, f"get of place {source}")
            self._buffers[place][:1] = b"\0"
        self.free.append(place)


class _Atomics(Operations):
    """All of them change one number, as ``ucx_perftest`` has it: the word at the beginning of the server's memory."""

    OP = ucp.UCP_ATOMIC_OP_ADD

    def __init__(self, side: UcpSide) -> None:
        super().__init__(side)
        self.mask = (1 << 8 * self.plan.size) - 1
        self.datatype = ucp.ucp_dt_make_contig(self.plan.size)

    def final(self) -> int:
        """What the word is at the end."""
        return int.from_bytes(memoryview(self.side.memory)[: self.plan.size], "little")

    def operand(self, number: int) -> bytes:
        return (number & self.mask).to_bytes(self.plan.size, "little")

    def verify_target(self) -> None:
        self.side.findings.expect(self.final(), self.total & self.mask, f"the sum after {self.total} additions")


class _Add(_Atomics):
    def __init__(self, side: UcpSide) -> None:
        super().__init__(side)
        self.limit = RING  # each is over for its caller at once, and outside the window
        self._param = _param(side, self.datatype)
        self._one = self.operand(1)

    def post(self, number: int) -> None:
        side = self.side
        ucp.ucp_atomic_op_nbx(side.ep, self.OP, self._one, 1, side.remote, side.rkey, self._param)


class _Fetching(_Atomics):
    """Those that fetch: what they found is added up, which tells of each that was lost or happened twice."""

    def __init__(self, side: UcpSide) -> None:
        super().__init__(side)
        self.replies = [bytearray(self.plan.size) for _ in range(self.plan.window)]
        self._params = [
            _param(side, self.datatype, cb=self._over, user_data=place, reply_buffer=reply)
            for place, reply in enumerate(self.replies)
        ]
        self.numbers = [0] * self.plan.window
        self.found = 0

    def operands(self, number: int) -> tuple[bytes, bytes | None]:
        """(operand, what the reply buffer holds before if that counts)."""
        return self.operand(1), None

    def take(self, number: int, reply: int) -> None:
        """An operation has found this."""
        self.found += reply

    def post(self, number: int) -> None:
        side, place = self.side, self.free.popleft()
        operand, other = self.operands(number)
        if other is not None:
            self.replies[place][:] = other
        self.numbers[place] = number
        ucp.ucp_atomic_op_nbx(side.ep, self.OP, operand, 1, side.remote, side.rkey, self._params[place])

    def verify_source(self) -> None:
        expected = self.total * (self.total - 1) // 2
        self.side.findings.expect(self.found, expected, f"the sum of what {self.total} operations found")

    def _over(self, request: Any, status: Any, place: int) -> None:
        self.side.check(status, "an atomic")
        if self.verify:
            self.take(self.numbers[place], int.from_bytes(self.replies[place], "little"))
        self.free.append(place)


class _Swap(_Fetching):
    """The operation n swaps in n + 1, and a lane keeps the order: together they find all numbers but the last."""

    OP = ucp.UCP_ATOMIC_OP_SWAP

    def operands(self, number: int) -> tuple[bytes, bytes | None]:
        return self.operand(number + 1), None

    def verify_target(self) -> None:
        self.side.findings.expect(self.final(), self.total & self.mask, f"the last of {self.total} swaps")


class _CompareAndSwap(_Fetching):
    """The operation n makes n + 1 of n; if one finds another number than its own, nothing more can succeed."""

    OP = ucp.UCP_ATOMIC_OP_CSWAP

    def operands(self, number: int) -> tuple[bytes, bytes | None]:
        return self.operand(number), self.operand(number + 1)

    def take(self, number: int, reply: int) -> None:
        super().take(number, reply)
        if reply != number & self.mask:
            self.side.findings.expect(reply, number & self.mask, f"compare-and-swap {number} found")


OPERATIONS: dict[str, type[Operations]] = {
    "put": _Put,
    "get": _Get,
    "add": _Add,
    "fadd": _Fetching,
    "swap": _Swap,
    "cswap": _CompareAndSwap,
}


def _param(side: UcpSide, datatype: int | None, **fields: Any) -> Any:
    """Parameters of operations that come one behind the other, if there is a window."""
    param = (
        ucp.ucp_request_param_t(**fields)
        if datatype is None
        else ucp.ucp_request_param_t(datatype=datatype, **fields)
    )
    if not side.plan.ping_pong:
        param.op_attr_mask = param.mask | ucp.UCP_OP_ATTR_FLAG_MULTI_SEND
    return param
