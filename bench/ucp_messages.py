"""Cycles per active message and per chunk of a stream, of two whole RTL NICs, as in :mod:`bench.messages`.

A message counts when the receiver's NIC writes its event. The driver takes messages meanwhile, calls the handler of
each, or copies it to the buffer of a receive.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import amoeba.ucp as ucp
from amoeba.openucx.ucp.adapter import Adapters, open_adapters
from amoeba_model.network import SimulatedDevice
from amoeba_model.trace import Stage

from bench.nic import HOST_LATENCY, LINK_LATENCY, WORD

__all__ = ["LONG", "ucp_message_rates", "ucp_transfers"]

LONG = 1 << 16
"""Bytes of a long message."""
_AM_ID = 1
_DONE = ucp.UcsStatus.UCS_OK
_PATIENCE = 1 << 24
"""Cycles after which something must have come."""


@dataclass
class _Side:
    """A worker, and its endpoint to the other one."""

    worker: Any
    ep: Any


@dataclass
class _Pair:
    adapters: Adapters
    sender: _Side
    receiver: _Side

    @property
    def device(self) -> SimulatedDevice:
        """The receiver's."""
        return cast(SimulatedDevice, self.adapters[1].nic.device)

    def until(self, done: Callable[[], bool]) -> None:
        """Make progress on both sides until something is so."""
        end = self.device.cycles + _PATIENCE
        while not done():
            ucp.ucp_worker_progress(self.sender.worker)
            ucp.ucp_worker_progress(self.receiver.worker)
            assert self.device.cycles < end, "nothing has come of it"

    def trace(self) -> None:
        """Forget what happened so far; from now on, tell."""
        self.device.tracing = True
        self.device.trace_events()

    def cycles(self, stage: Stage) -> list[int]:
        """Return the cycles of a stage since :meth:`trace`."""
        return [event.cycle for event in self.device.trace_events() if event.stage is stage]


@contextlib.contextmanager
def _pair(kind: str) -> Iterator[_Pair]:
    options = {"host_latency": HOST_LATENCY}
    with open_adapters((kind, kind), latency=LINK_LATENCY, rtl_options=options) as adapters:
        features = ucp.UCP_FEATURE_STREAM | ucp.UCP_FEATURE_AM
        workers = []
        for adapter in adapters:
            context = ucp.ucp_init(ucp.ucp_params_t(features=features), adapter=adapter)
            workers.append(ucp.ucp_worker_create(context, ucp.ucp_worker_params_t()))
        sides = []
        for worker, other in zip(workers, workers[::-1], strict=True):
            address, _ = ucp.ucp_worker_get_address(other)
            sides.append(_Side(worker, ucp.ucp_ep_create(worker, ucp.ucp_ep_params_t(address=address))))
        yield _Pair(adapters, *sides)


def _pace(cycles: list[int]) -> float:
    """Cycles each in the middle half."""
    first, last = len(cycles) // 4, len(cycles) - 1 - len(cycles) // 4
    return (cycles[last] - cycles[first]) / (last - first)


class _Handler:
    """Counts active messages and their bytes; of those left at their sender it begins to read the data."""

    def __init__(self, worker: Any, size: int) -> None:
        self.bytes = 0
        self._worker = worker
        self._buffer = bytearray(size)
        self._param = ucp.ucp_request_param_t(cb=self._read)
        ucp.ucp_worker_set_am_recv_handler(worker, ucp.ucp_am_handler_param_t(id=_AM_ID, cb=self._came))

    def _came(self, arg: Any, header: Any, header_length: int, data: Any, length: int, param: Any) -> Any:
        if not param.recv_attr & ucp.UCP_AM_RECV_ATTR_FLAG_RNDV:
            self.bytes += length
            return _DONE
        ucp.ucp_am_recv_data_nbx(self._worker, data, self._buffer, length, self._param)
        return ucp.UcsStatus.UCS_INPROGRESS

    def _read(self, request: Any, status: Any, length: int, user_data: Any) -> None:
        assert status == _DONE
        self.bytes += length


def _send_messages(pair: _Pair, size: int, count: int, flags: int) -> None:
    """Send active messages until all have come."""
    data, param = bytes(size), ucp.ucp_request_param_t(flags=flags)
    handler = _Handler(pair.receiver.worker, size)
    for _ in range(count):
        ucp.ucp_am_send_nbx(pair.sender.ep, _AM_ID, None, 0, data, size, param)
    pair.until(lambda: handler.bytes == size * count)


def _send_stream(pair: _Pair, size: int, count: int) -> None:
    """Send chunks of a stream until all are received: into a buffer that takes them all."""
    data, total = bytes(size), size * count
    param = ucp.ucp_request_param_t(flags=ucp.UCP_STREAM_RECV_FLAG_WAITALL)
    received, _ = ucp.ucp_stream_recv_nbx(pair.receiver.ep, bytearray(total), total, param)
    for _ in range(count):
        ucp.ucp_stream_send_nbx(pair.sender.ep, data, size, None)
    pair.until(lambda: received.done)


_SMALL: dict[str, Callable[[_Pair, int], None]] = {
    "active message": lambda pair, count: _send_messages(pair, WORD, count, 0),
    "chunk of a stream": lambda pair, count: _send_stream(pair, WORD, count),
}
_LONG: dict[str, tuple[Callable[[_Pair, int], None], Stage]] = {
    "active message in fragments": (
        lambda pair, count: _send_messages(pair, LONG, count, ucp.UCP_AM_SEND_FLAG_EAGER),
        Stage.EVENT_WRITTEN,
    ),
    "active message that is read": (
        lambda pair, count: _send_messages(pair, LONG, count, ucp.UCP_AM_SEND_FLAG_RNDV),
        Stage.COMPLETION_WRITTEN,
    ),
    "send into a stream": (lambda pair, count: _send_stream(pair, LONG, count), Stage.EVENT_WRITTEN),
}
"""Long transfers, each with the receiver's sign of progress: events of packets, or the ends of its own reads."""


def ucp_message_rates(count: int = 1024, kind: str = "rtl") -> dict[str, float]:
    """Cycles per active message and per chunk of a stream, of 8 bytes each."""
    rates = {}
    for name, send in _SMALL.items():
        with _pair(kind) as pair:
            send(pair, 1)
            pair.trace()
            send(pair, count)
            rates[name] = _pace(pair.cycles(Stage.EVENT_WRITTEN)[:count])
    return rates


def ucp_transfers(count: int = 16, kind: str = "rtl") -> dict[str, float]:
    """Payload bytes per cycle of 64 KiB each, in the middle half."""
    rates = {}
    for name, (send, stage) in _LONG.items():
        with _pair(kind) as pair:
            send(pair, 1)
            pair.trace()
            send(pair, count)
            cycles = pair.cycles(stage)
            rates[name] = LONG * count / len(cycles) / _pace(cycles)
    return rates
