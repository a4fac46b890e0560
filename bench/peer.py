"""Cost of a remote operation without a NIC: eight bytes there and back over UDP on the loopback interface."""

import multiprocessing
import resource
import socket
from dataclasses import dataclass

__all__ = ["Call", "request_response_rate"]

_SIZE = 8
_TIMEOUT = 10.0


@dataclass(frozen=True)
class Call:
    """Measured figures of a call."""

    per_second: float
    """Operations per second of CPU time of both processes."""
    call_ns: float
    """CPU time of the call alone."""
    clock_us: float = 0.0
    """Time by the clock, where it was taken: how long one takes, if only one is in flight."""

    @classmethod
    def alone(cls, per_second: float) -> "Call":
        """Return the measurements of a process that does all the work."""
        return cls(per_second, 1e9 / per_second)


def _respond(server: socket.socket) -> None:
    """Add one to every 64-bit number that arrives and send it back, until an empty datagram comes."""
    while True:
        request, client = server.recvfrom(_SIZE)
        if not request:
            return
        server.sendto((int.from_bytes(request, "little") + 1).to_bytes(_SIZE, "little"), client)


def _cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def request_response_rate(operations: int, window: int) -> float:
    """Measure fetch-and-adds per second of CPU time of both sides, ``window`` in flight, between two processes.

    Raises TimeoutError if a datagram gets lost.
    """
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        server.bind(("127.0.0.1", 0))
        client.connect(server.getsockname())
        client.settimeout(_TIMEOUT)
        responder = multiprocessing.get_context("fork").Process(target=_respond, args=(server,), daemon=True)
        started = _cpu_seconds()
        responder.start()
        try:
            for done in range(0, operations, window):
                count = min(window, operations - done)
                for number in range(done, done + count):
                    client.send(number.to_bytes(_SIZE, "little"))
                for number in range(done, done + count):
                    answer = int.from_bytes(client.recv(_SIZE), "little")
                    assert answer == number + 1, f"{answer} for {number}"
        finally:
            client.send(b"")
            responder.join(_TIMEOUT)
            responder.terminate()
        return operations / (_cpu_seconds() - started)
