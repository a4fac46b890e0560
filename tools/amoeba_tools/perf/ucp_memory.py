"""Tests of UCP on the other side's memory: put, get, atomics."""

from collections import deque
from typing import Any

import amoeba.ucp as ucp

from amoeba_tools.perf.meter import Meter
from amoeba_tools.perf.sides import Steps
from amoeba_tools.perf.ucp_side import RING, Peer, UcpSide

__all__ = ["OPERATIONS", "Operations", "PutPingPong"]


class PutPingPong:
    """Messages that are put where the other side looks for them."""

    def __init__(self, side: UcpSide) -> None:
        self._side = side
        self._contents = [side.pieces(content, side.plan.layouts[0]) for content in side.payloads.contents]
        self._param = _param(side, self._contents[0][2], cb=self._over)
        self._outstanding = 0
        self._memory = memoryview(side.memory)[: side.plan.size]

    def send(self, number: int, peer: int) -> Steps:
        while self._outstanding:
            yield
        buffer, count, _ = self._contents[number % len(self._contents)]
        to = self._side.peers[peer]
        self._outstanding += 1
        if ucp.ucp_put_nbx(to.ep, buffer, count, to.address, to.rkey, self._param) is None:
            self._outstanding -= 1

    def receive(self, number: int, peer: int) -> Steps:
        """Wait for the last byte, and with verification for all bytes of the message."""
        memory, content, last = self._memory, self._side.payloads.of(number), self._side.plan.size - 1
        while memory[last] != content[last] or (self._side.plan.verify and bytes(memory) != content):
            yield

    def finish(self) -> Steps:
        yield from self._side.flushed()

    def _over(self, request: Any, status: Any, user_data: Any) -> None:
        self._outstanding -= 1
        self._side.check(status, "a put")


class Operations:
    """Operations of the client, with a window outstanding; servers do nothing.

    ``place``: slot of the window. A server has its own slots in its memory, which its operations use in turn.
    """

    def __init__(self, side: UcpSide) -> None:
        self.side = side
        self.plan = side.plan
        self.verify = side.plan.verify
        self.own = range(side.index, side.plan.total, side.plan.peers)
        """Numbers of the operations on a server's memory."""
        self.limit = side.plan.window
        self.free = deque(range(self.limit))
        """Places of operations whose requests are not over."""

    def prepare_target(self) -> None:
        """Fill a server's memory."""

    def peer(self, number: int) -> Peer:
        """Return the peer of operation ``number``."""
        return self.side.peers[number % len(self.side.peers)]

    def local(self, number: int) -> int:
        """How many operations are with the same peer before that of this number."""
        return number // self.plan.peers

    def post(self, number: int) -> None:
        """Post the operation of this number."""
        raise NotImplementedError

    def verify_source(self) -> None:
        """Note what is wrong at the client, at the end."""

    def verify_target(self) -> None:
        """Note what is wrong in a server's memory, at the end."""

    def run(self, meter: Meter) -> Steps:
        """Run all operations of the client."""
        lanes, limit, plan = [peer.ep.memory for peer in self.side.peers], self.limit, self.plan
        for numbers, meant in ((range(plan.warmup), False), (range(plan.warmup, plan.total), True)):
            if meant:
                meter.start()
            for number in numbers:
                while sum(lane.posted - lane.done for lane in lanes) >= limit or not self.free:
                    yield
                self.post(number)
                if meant:
                    meter.update()
            while len(self.free) < plan.window:
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
        peer = self.peer(number)
        buffer, count, _ = self._contents[number % len(self._contents)]
        address = peer.address + self.local(number) % self.limit * self.plan.size
        if ucp.ucp_put_nbx(peer.ep, buffer, count, address, peer.rkey, self._param) is not None:
            self.free.popleft()

    def _over(self, request: Any, status: Any, user_data: Any) -> None:
        self.free.append(0)
        self.side.check(status, "a put")

    def verify_target(self) -> None:
        size = self.plan.size
        for number in self.own[-self.limit :]:
            place = self.local(number) % self.limit * size
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
            content = self.side.payloads.of(place * self.plan.peers + self.side.index)
            memory[place * size : (place + 1) * size] = content

    def post(self, number: int) -> None:
        peer, place = self.peer(number), self.free.popleft()
        self._numbers[place] = number % (self.side.places * self.plan.peers)
        buffer, count, _ = self._pieces[place]
        address = peer.address + self.local(number) % self.side.places * self.plan.size
        ucp.ucp_get_nbx(peer.ep, buffer, count, address, peer.rkey, self._params[place])

    def _over(self, request: Any, status: Any, place: int) -> None:
        self.side.check(status, "a get")
        if self.verify:
            number = self._numbers[place]
            if self._buffers[place] != (content := self.side.payloads.of(number)):
                self.side.findings.expect(self._buffers[place], content, f"get {number}")
            self._buffers[place][:1] = b"\0"
        self.free.append(place)


class _Atomics(Operations):
    """All of them change one number, as ``ucx_perftest`` has it: the word at the beginning of the server's memory.

    A server's word is its own: what its operations find and leave follows from their numbers among themselves.
    """

    OP = ucp.UCP_ATOMIC_OP_ADD

    def __init__(self, side: UcpSide) -> None:
        super().__init__(side)
        self.mask = (1 << 8 * self.plan.size) - 1
        self.datatype = ucp.ucp_dt_make_contig(self.plan.size)

    def final(self) -> int:
        """Return the word's final value."""
        return int.from_bytes(memoryview(self.side.memory)[: self.plan.size], "little")

    def operand(self, number: int) -> bytes:
        return (number & self.mask).to_bytes(self.plan.size, "little")

    def verify_target(self) -> None:
        count = len(self.own)
        self.side.findings.expect(self.final(), count & self.mask, f"the sum after {count} additions")


class _Add(_Atomics):
    def __init__(self, side: UcpSide) -> None:
        super().__init__(side)
        self.limit = RING  # each is over for its caller at once, and outside the window
        self._param = _param(side, self.datatype)
        self._one = self.operand(1)

    def post(self, number: int) -> None:
        peer = self.peer(number)
        ucp.ucp_atomic_op_nbx(peer.ep, self.OP, self._one, 1, peer.address, peer.rkey, self._param)


class _Fetching(_Atomics):
    """Fetching operations: the sum of their results reveals each lost or repeated operation."""

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
        """Take the result of an operation."""
        self.found += reply

    def post(self, number: int) -> None:
        peer, place = self.peer(number), self.free.popleft()
        local = self.local(number)
        operand, other = self.operands(local)
        if other is not None:
            self.replies[place][:] = other
        self.numbers[place] = local
        ucp.ucp_atomic_op_nbx(peer.ep, self.OP, operand, 1, peer.address, peer.rkey, self._params[place])

    def verify_source(self) -> None:
        total, peers = self.plan.total, self.plan.peers
        counts = [len(range(peer, total, peers)) for peer in range(peers)]
        expected = sum(count * (count - 1) // 2 for count in counts)
        self.side.findings.expect(self.found, expected, f"the sum of what {total} operations found")

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
        count = len(self.own)
        self.side.findings.expect(self.final(), count & self.mask, f"the last of {count} swaps")


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
