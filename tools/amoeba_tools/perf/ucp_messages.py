"""Tests of UCP that send and receive: tagged messages, active messages, streams."""

from collections import deque
from collections.abc import Iterator
from typing import Any

import amoeba.ucp as ucp

from amoeba_tools.perf.sides import Steps
from amoeba_tools.perf.ucp_side import UcpSide

__all__ = ["CHANNELS", "Channel"]

_TAG = 0x1337A880
_EVERY_BIT = 2**64 - 1
_AM_ID = 1


class Channel:
    """Sends and receives by number; at most a window of each is outstanding."""

    def __init__(self, side: UcpSide, arriving: Iterator[int]) -> None:
        """``arriving``: numbers of the messages that come here, in their order."""
        self.side, self.arriving = side, arriving
        self.window = side.plan.window
        self.verify = side.plan.verify
        self.places = max(self.window, side.plan.peers)
        """Messages that can come at the same time: a window of them to a server, to the client one of each."""
        self.sending = 0
        self._send_param = ucp.ucp_request_param_t(cb=self._sent)
        sender, receiver = side.plan.layouts
        self._contents = [side.pieces(content, sender) for content in side.payloads.contents]
        if self._contents[0][2] is not None:
            self._send_param.datatype = self._contents[0][2]
        if side.plan.entry.window > 1 or not side.plan.ping_pong:
            self._send_param.op_attr_mask = self._send_param.mask | ucp.UCP_OP_ATTR_FLAG_MULTI_SEND
        self.buffers = [bytearray(side.plan.size) for _ in range(self.places)]
        self._wanted = [side.pieces(buffer, receiver) for buffer in self.buffers]
        self.receive_datatype = self._wanted[0][2]

    def post(self, number: int, ep: Any) -> Any:
        """Post a send; its request, or None if it is over."""
        raise NotImplementedError

    def receive_next(self, number: int, peer: int) -> Steps:
        """Post the receive of message ``number``, when the window has free space."""
        raise NotImplementedError

    def received(self) -> Steps:
        """Wait until all receives are met."""
        raise NotImplementedError

    def send(self, number: int, peer: int) -> Steps:
        while self.sending >= self.window:
            yield
        self.sending += 1
        if self.post(number, self.side.peers[peer].ep) is None:
            self.sending -= 1

    def receive(self, number: int, peer: int) -> Steps:
        yield from self.receive_next(number, peer)
        yield from self.received()

    def finish(self) -> Steps:
        while self.sending:
            yield
        yield from self.side.flushed()

    def content(self, number: int) -> tuple[Any, int]:
        buffer, count, _ = self._contents[number % len(self._contents)]
        return buffer, count

    def place(self, index: int) -> tuple[Any, int]:
        buffer, count, _ = self._wanted[index]
        return buffer, count

    def expect(self, number: int, data: Any) -> None:
        """Check the received data of message ``number``."""
        if self.verify and data != (content := self.side.payloads.of(number)):
            self.side.findings.expect(data, content, f"message {number}")

    def _sent(self, request: Any, status: Any, user_data: Any) -> None:
        self.sending -= 1
        self.side.check(status, "a send")


class _Tagged(Channel):
    def __init__(self, side: UcpSide, arriving: Iterator[int]) -> None:
        super().__init__(side, arriving)
        self._call = ucp.ucp_tag_send_sync_nbx if side.plan.command == "tag_sync" else ucp.ucp_tag_send_nbx
        self._mask = 0 if side.plan.wildcard else _EVERY_BIT
        self._free = deque(range(self.window))
        self._numbers = [0] * self.window
        self._params = [
            ucp.ucp_request_param_t(cb=self._came, user_data=place, datatype=self.receive_datatype)
            if self.receive_datatype is not None
            else ucp.ucp_request_param_t(cb=self._came, user_data=place)
            for place in range(self.window)
        ]
        self._unexpected = side.plan.unexpected

    def post(self, number: int, ep: Any) -> Any:
        buffer, count = self.content(number)
        return self._call(ep, buffer, count, _TAG, self._send_param)

    def receive_next(self, number: int, peer: int) -> Steps:
        while not self._free:
            yield
        if self._unexpected:
            while ucp.ucp_tag_probe_nb(self.side.worker, _TAG, self._mask, 0)[0] is None:
                yield
        place = self._free.popleft()
        self._numbers[place] = number
        buffer, count = self.place(place)
        request = ucp.ucp_tag_recv_nbx(self.side.worker, buffer, count, _TAG, self._mask, self._params[place])
        if request is None:
            self._over(place)

    def received(self) -> Steps:
        while len(self._free) < self.window:
            yield

    def _came(self, request: Any, status: Any, info: Any, place: int) -> None:
        self.side.check(status, "a tagged receive")
        self._over(place)

    def _over(self, place: int) -> None:
        self.expect(self._numbers[place], self.buffers[place])
        self._free.append(place)


class _ActiveMessages(Channel):
    def __init__(self, side: UcpSide, arriving: Iterator[int]) -> None:
        super().__init__(side, arriving)
        self._header = bytes(range(256)) * (side.plan.header // 256 + 1)
        self._header = self._header[: side.plan.header]
        self._over = self._wanted_count = 0
        self._read_params = [
            ucp.ucp_request_param_t(cb=self._read, user_data=place, datatype=self.receive_datatype)
            if self.receive_datatype is not None
            else ucp.ucp_request_param_t(cb=self._read, user_data=place)
            for place in range(self.places)
        ]
        self._numbers = [0] * self.places
        self._free = deque(range(self.places))
        ucp.ucp_worker_set_am_recv_handler(side.worker, ucp.ucp_am_handler_param_t(id=_AM_ID, cb=self._came))

    def post(self, number: int, ep: Any) -> Any:
        buffer, count = self.content(number)
        header = self._header or None
        return ucp.ucp_am_send_nbx(ep, _AM_ID, header, len(self._header), buffer, count, self._send_param)

    def receive_next(self, number: int, peer: int) -> Steps:
        self._wanted_count += 1
        while self._wanted_count - self._over >= max(self.window, 2):
            yield

    def received(self) -> Steps:
        while self._over < self._wanted_count:
            yield

    def _came(self, arg: Any, header: Any, header_length: int, data: Any, length: int, param: Any) -> Any:
        number = next(self.arriving)
        if self.verify and bytes(header or b"") != self._header:
            self.side.findings.expect(header or b"", self._header, f"header {number}")
        if not param.recv_attr & ucp.UCP_AM_RECV_ATTR_FLAG_RNDV:
            self._over += 1
            if self.verify:
                self.expect(number, bytes(data or b""))
            return ucp.UCS_OK
        place = self._free.popleft()
        self._numbers[place] = number
        buffer, count = self.place(place)
        request = ucp.ucp_am_recv_data_nbx(self.side.worker, data, buffer, count, self._read_params[place])
        if request is None:
            self._taken(place)
        return ucp.UCS_INPROGRESS

    def _read(self, request: Any, status: Any, length: int, place: int) -> None:
        self.side.check(status, "an active message")
        self._taken(place)

    def _taken(self, place: int) -> None:
        self._over += 1
        self.expect(self._numbers[place], self.buffers[place])
        self._free.append(place)


class _Stream(Channel):
    def __init__(self, side: UcpSide, arriving: Iterator[int]) -> None:
        super().__init__(side, arriving)
        self._views = [memoryview(buffer) for buffer in self.buffers]
        self._by_reference = side.plan.receive_mode == "recv_data"
        self._all = ucp.ucp_request_param_t(flags=ucp.UCP_STREAM_RECV_FLAG_WAITALL)
        if self.receive_datatype is not None:
            self._all.datatype = self.receive_datatype
        self._rest = [bytearray() for _ in side.peers]
        """Received bytes per peer beyond the requested ones."""

    def post(self, number: int, ep: Any) -> Any:
        buffer, count = self.content(number)
        return ucp.ucp_stream_send_nbx(ep, buffer, count, self._send_param)

    def receive_next(self, number: int, peer: int) -> Steps:
        return self._by_data(number, peer) if self._by_reference else self._by_copy(number, peer)

    def received(self) -> Steps:
        return iter(())

    def _by_copy(self, number: int, peer: int) -> Steps:
        place = number % self.window
        size, got, ep = self.side.plan.size, 0, self.side.peers[peer].ep
        while got < size:
            if self.receive_datatype is None:
                request, length = ucp.ucp_stream_recv_nbx(
                    ep, self._views[place][got:] if got else self.buffers[place], size - got, None
                )
            else:
                buffer, count = self.place(place)
                request, length = ucp.ucp_stream_recv_nbx(ep, buffer, count, self._all)
            if request is not None:
                while not ucp.ucp_request_is_completed(request):
                    yield
                status, length = ucp.ucp_stream_recv_request_test(request)
                self.side.check(status, "a stream")
            got += length
        self.expect(number, self.buffers[place])

    def _by_data(self, number: int, peer: int) -> Steps:
        size, ep, rest = self.side.plan.size, self.side.peers[peer].ep, self._rest[peer]
        while len(rest) < size:
            data = ucp.ucp_stream_recv_data_nb(ep)
            if data is None:
                yield
                continue
            rest += data
            ucp.ucp_stream_data_release(ep, data)
        if self.verify:
            self.expect(number, rest[:size])
        del rest[:size]


CHANNELS: dict[str, type[Channel]] = {
    "tag": _Tagged,
    "tag_sync": _Tagged,
    "am": _ActiveMessages,
    "stream": _Stream,
}
