"""The host's CPU time of UCP's messages beside libfabric's endpoint in one run: 8 bytes, windows of 32.

Calls ring their doorbells, but of a device that does nothing until all of a window are posted; what has come is
taken when all of it has. The best window counts. A receive that is posted by nobody, as of an active message, takes
what its progress takes, with the handler's call.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import amoeba.ucp as ucp
from amoeba import BindFlags, open_cluster
from amoeba.ucp.adapter import open_adapters

from bench.report import Grid

__all__ = ["measure", "times_grid"]

_WINDOW = 32
_LATENCIES = 400
"""Network latencies after which everything posted has arrived."""
_SIZE = 8
_TAG = 7
_EVERY_BIT = 2**64 - 1
_AM_ID = 1

Times = dict[str, float]
"""CPU microseconds by what was done."""
_AIM = 1.25
"""The most that UCP is to take, in the endpoint's time."""
_PEERS = {
    "tagged send": "tagged send",
    "tagged receive": "tagged receive",
    "active message sent": "send",
    "active message handled": "receive",
    "stream send": "send",
    "stream receive": "receive",
}
"""What of the endpoint each call of UCP stands beside."""


class _Window:
    """Times windows of messages from one device to another."""

    def __init__(self, source: Any, target: Any) -> None:
        self._source = source
        self._target = target
        self.best: dict[str, float] = {}

    def exchange(
        self,
        sent: str,
        received: str,
        post_receive: Callable[[], object] | None,
        post_send: Callable[[], object],
        take_sent: Callable[[], object],
        take_received: Callable[[], int],
    ) -> None:
        """One window: receives if there are any, sends, and what has come of both."""
        receiving = 0.0 if post_receive is None else self._posted(self._target, post_receive)
        sending = self._posted(self._source, post_send)
        for _ in range(_LATENCIES):
            self._source.advance()
        sending += self._timed(take_sent)[0]
        spent, came = self._timed(take_received)
        assert came == _WINDOW, f"{received}: {came} of {_WINDOW} messages"
        for name, seconds in ((sent, sending), (received, receiving + spent)):
            self.best[name] = min(seconds, self.best.get(name, seconds))

    def each(self) -> Times:
        return {name: 1e6 * seconds / _WINDOW for name, seconds in self.best.items()}

    @staticmethod
    def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
        begin = time.process_time()
        result = function()
        return time.process_time() - begin, result

    @staticmethod
    def _posted(device: Any, post: Callable[[], object]) -> float:
        with _silenced(device):
            begin = time.process_time()
            for _ in range(_WINDOW):
                post()
            return time.process_time() - begin


@contextlib.contextmanager
def _silenced(device: Any) -> Iterator[None]:
    """The device hears what is written to its registers at the end, each register once."""
    swallowed: dict[int, int] = {}
    device.write = swallowed.__setitem__
    try:
        yield
    finally:
        del device.write
        for offset, value in swallowed.items():
            device.write(offset, value)


def _libfabric(windows: int) -> Times:
    with open_cluster(["model", "model"]) as fabric:
        source, target = fabric.domain(0), fabric.domain(1)
        sent, came, peers = source.cq_open(), target.cq_open(), source.av_open()
        sender = source.endpoint(cq=sent, av=peers)
        receiver = target.endpoint(cq=came, av=target.av_open(), cq_flags=BindFlags.FI_TRANSMIT | BindFlags.FI_RECV)
        peer, data, buffer = peers.insert(receiver.getname()), bytes(_SIZE), bytearray(_SIZE)
        window = _Window(source.nic.device, target.nic.device)
        pairs = {
            ("tagged send", "tagged receive"): (
                lambda: receiver.trecv(buffer, _TAG),
                lambda: sender.tsend(data, peer, _TAG),
            ),
            ("send", "receive"): (lambda: receiver.recv(buffer), lambda: sender.send(data, peer)),
        }
        for names, (receive, send) in pairs.items():
            for _ in range(windows):
                window.exchange(*names, receive, send, lambda: sent.read(_WINDOW), lambda: len(came.read(_WINDOW)))
        return window.each()


class _Counted:
    """How many messages have come since it was last asked."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, *_: object) -> Any:
        self._count += 1
        return ucp.UCS_OK

    def take(self) -> int:
        count, self._count = self._count, 0
        return count


def _ucp(windows: int) -> Times:
    features = ucp.UCP_FEATURE_TAG | ucp.UCP_FEATURE_AM | ucp.UCP_FEATURE_STREAM
    with open_adapters() as adapters:
        contexts = [ucp.ucp_init(ucp.ucp_params_t(features=features), adapter=adapter) for adapter in adapters]
        source, target = (ucp.ucp_worker_create(context, ucp.ucp_worker_params_t()) for context in contexts)
        out, back = (
            ucp.ucp_ep_create(worker, ucp.ucp_ep_params_t(address=ucp.ucp_worker_get_address(other)[0]))
            for worker, other in ((source, target), (target, source))
        )
        data, buffer, came = bytes(_SIZE), bytearray(_SIZE), _Counted()
        told = ucp.ucp_request_param_t(cb=came.add)
        ucp.ucp_worker_set_am_recv_handler(target, ucp.ucp_am_handler_param_t(id=_AM_ID, cb=came.add))
        window = _Window(source.nic.device, target.nic.device)

        def taken() -> int:
            while ucp.ucp_worker_progress(target):
                pass
            return came.take()

        pairs: dict[tuple[str, str], tuple[Callable[[], object] | None, Callable[[], object]]] = {
            ("tagged send", "tagged receive"): (
                lambda: ucp.ucp_tag_recv_nbx(target, buffer, _SIZE, _TAG, _EVERY_BIT, told),
                lambda: ucp.ucp_tag_send_nbx(out, data, _SIZE, _TAG, None),
            ),
            ("active message sent", "active message handled"): (
                None,
                lambda: ucp.ucp_am_send_nbx(out, _AM_ID, None, 0, data, _SIZE, None),
            ),
            ("stream send", "stream receive"): (
                lambda: ucp.ucp_stream_recv_nbx(back, buffer, _SIZE, told),
                lambda: ucp.ucp_stream_send_nbx(out, data, _SIZE, None),
            ),
        }
        for names, (receive, send) in pairs.items():
            for _ in range(3):  # lanes are opened, and the ends of the endpoint know each other
                send()
                if receive is not None:
                    receive()
                for _ in range(_LATENCIES):
                    ucp.ucp_worker_progress(source)
                    taken()
            for _ in range(windows):
                window.exchange(*names, receive, send, lambda: ucp.ucp_worker_progress(source), taken)
        return window.each()


def measure(windows: int = 40) -> tuple[Times, Times]:
    """Of UCP's calls, and of the endpoint's, taken in turns."""
    sides: list[Times] = [{}, {}]
    for _ in range(3):
        for best, side in zip(sides, (_ucp, _libfabric), strict=True):
            for name, spent in side(windows).items():
                best[name] = min(spent, best.get(name, spent))
    return sides[0], sides[1]


def times_grid(ours: Times, libfabrics: Times) -> Grid:
    """Both side by side."""
    rows = [
        (
            name,
            round(ours[name], 2),
            other,
            round(libfabrics[other], 2),
            round(ours[name] / libfabrics[other], 2),
            _AIM,
        )
        for name, other in _PEERS.items()
    ]
    header = ("8 bytes, posted and taken", "UCP us", "the endpoint's", "us", "ratio", "aim")
    return Grid("messages of UCX's API beside libfabric's endpoint, two model NICs", header, rows)
