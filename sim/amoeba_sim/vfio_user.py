"""Simulated NICs as PCI functions that a virtual machine can have: vfio-user servers, for QEMU's ``vfio-user-pci``.

An :class:`EndpointServer` has several NICs on one network, and a socket for each::

    process that uses it  -  vfio-pci  -  kernel of the guest  -  QEMU  -  socket  -  PciFunction  -  SimulatedDevice

Memory of the guest is reached through the descriptors that QEMU hands over, at the I/O virtual addresses that the
guest's IOMMU knows. A client is not trusted: what it says wrong is answered with an error, and what is no message
ends its connection. When it goes, its NIC is reset, and waits for the next. A NIC that breaks a rule of its buses is
reset, too, and loses its client; the others go on.
"""

import contextlib
import errno
import json
import os
import select
import socket
import stat
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from amoeba_model.device import DeviceError
from amoeba_model.network import Network, SimulatedDevice
from amoeba_model.vfio import (
    DEVICE_INFO,
    DMA_MAP,
    DMA_UNMAP,
    IRQ_INFO,
    IRQ_SET,
    REGION_INFO,
    DeviceFlags,
    Irq,
    IrqInfoFlags,
    IrqSetFlags,
    MapFlags,
    Region,
    RegionFlags,
    UnmapFlags,
)

from amoeba_sim.vfio_user_function import PciFunction
from amoeba_sim.vfio_user_memory import MAX_MAPS, PAGE
from amoeba_sim.vfio_user_protocol import (
    MAX_DATA,
    REGION_ACCESS,
    VERSION,
    Channel,
    Command,
    Message,
    ProtocolError,
)

__all__ = ["EndpointServer"]

_LINGER = 20_000
"""Cycles without activity after which time may pass slowly: more than a first retransmission takes to come."""
_IDLE_HZ = 100_000
"""Cycles per second of NICs at rest, which may wait for a retransmission."""
_ASLEEP = 3
"""How many times as long as it works a server at rest sleeps."""
_FOLLOWING = 2e-4
"""Seconds that another message is waited for: a client rarely has only one, and a step may take long."""
_MAX_AT_ONCE = 256
"""Messages of each client in a round."""
_MAX_REPORTED = 100
"""Refused accesses of the NIC of one client that are printed."""
_MAX_ROUNDS = 16
"""Rounds between steps, whatever clients have to say: their NICs' time has to pass."""
_ANNOUNCED_DESCRIPTORS = 16
"""QEMU takes no larger number."""
_CAPABILITIES = {
    "capabilities": {
        "max_msg_fds": _ANNOUNCED_DESCRIPTORS,
        "max_data_xfer_size": MAX_DATA,
        "max_dma_maps": MAX_MAPS,
        "pgsizes": PAGE,
    }
}


class _Connection:
    """A client of one function: what its messages ask for."""

    def __init__(self, function: PciFunction, channel: Channel) -> None:
        self.channel = channel
        self._function = function
        self._agreed = False
        self._handlers: Mapping[int, Callable[[Message], bytes]] = {
            Command.VERSION: self._version,
            Command.DMA_MAP: self._map,
            Command.DMA_UNMAP: self._unmap,
            Command.DEVICE_GET_INFO: self._device_info,
            Command.DEVICE_GET_REGION_INFO: self._region_info,
            Command.DEVICE_GET_IRQ_INFO: self._irq_info,
            Command.DEVICE_SET_IRQS: self._set_irqs,
            Command.REGION_READ: self._read,
            Command.REGION_WRITE: self._write,
            Command.DEVICE_RESET: self._reset,
        }

    def serve(self) -> int:
        """Answer what has come; returns how many messages that were. Raises what ends the connection."""
        self.channel.flush()
        for count in range(_MAX_AT_ONCE):
            message = self.channel.receive()
            if message is None:
                return count
            try:
                self._answer(message)
            finally:
                message.close()
        return _MAX_AT_ONCE

    def _answer(self, message: Message) -> None:
        if message.is_reply:
            raise ProtocolError("a reply, but nothing was asked")
        if not self._agreed and message.command != Command.VERSION:
            raise ProtocolError(f"expected VERSION first, got command {message.command}")
        try:
            handler = self._handlers.get(message.command)
            if handler is None:
                raise OSError(errno.ENOTSUP, f"command {message.command}")
            body = handler(message)
        except OSError as error:
            self.channel.reply(message, error=error.errno or errno.EIO)
            if not self._agreed:
                raise ProtocolError(f"no agreement: {error}") from None
        else:
            self.channel.reply(message, body)

    @staticmethod
    def _fields(layout, message: Message, *, sized: bool = True) -> tuple[int, ...]:
        """Unpack a structure at the begin of a message, which contains its own size."""
        if len(message.body) < layout.size:
            raise OSError(errno.EINVAL, f"expected {layout.size} bytes, got {len(message.body)}")
        fields = layout.unpack_from(message.body)
        if sized and fields[0] < layout.size:
            raise OSError(errno.EINVAL, f"expected argsz of at least {layout.size}, got {fields[0]}")
        return fields

    def _version(self, message: Message) -> bytes:
        major, _ = self._fields(VERSION, message, sized=False)
        if self._agreed or major != 0:
            raise OSError(errno.EINVAL, f"expected version 0, once, got {major}")
        self._agreed = True
        return VERSION.pack(0, 0) + json.dumps(_CAPABILITIES).encode() + b"\0"

    def _map(self, message: Message) -> bytes:
        _, flags, offset, iova, size = self._fields(DMA_MAP, message)
        if flags & ~(MapFlags.READ | MapFlags.WRITE) or not flags & MapFlags.READ:
            raise OSError(errno.EINVAL, f"expected memory to read, or to read and write, got flags {flags:#x}")
        if len(message.descriptors) > 1:
            raise OSError(errno.EINVAL, f"expected one descriptor, got {len(message.descriptors)}")
        file = message.descriptors[0] if message.descriptors else None
        writable = bool(flags & MapFlags.WRITE)
        self._function.memory.map(iova, size, writable=writable, file=file, offset=offset)
        return b""

    def _unmap(self, message: Message) -> bytes:
        argsz, flags, iova, size = self._fields(DMA_UNMAP, message)
        if flags & ~UnmapFlags.ALL:
            raise OSError(errno.ENOTSUP, f"flags {flags:#x}")
        memory = self._function.memory
        if flags & UnmapFlags.ALL:
            if iova or size:
                raise OSError(errno.EINVAL, "all is from 0 on, of size 0")
            return DMA_UNMAP.pack(argsz, flags, iova, memory.clear())
        return DMA_UNMAP.pack(argsz, flags, iova, memory.unmap(iova, size))

    def _device_info(self, message: Message) -> bytes:
        self._fields(DEVICE_INFO, message)
        return DEVICE_INFO.pack(DEVICE_INFO.size, DeviceFlags.PCI | DeviceFlags.RESET, len(Region), len(Irq))

    def _region_info(self, message: Message) -> bytes:
        index = self._fields(REGION_INFO, message)[2]
        if index >= len(Region):
            raise OSError(errno.EINVAL, f"region {index}")
        size = self._function.size_of(index)
        flags = RegionFlags.READ | RegionFlags.WRITE if size else RegionFlags(0)
        return REGION_INFO.pack(REGION_INFO.size, flags, index, 0, size, 0)

    def _irq_info(self, message: Message) -> bytes:
        index = self._fields(IRQ_INFO, message)[2]
        if index >= len(Irq):
            raise OSError(errno.EINVAL, f"interrupts of kind {index}")
        count = self._function.vectors if index == Irq.MSIX else 0
        flags = IrqInfoFlags.EVENTFD | IrqInfoFlags.NORESIZE if count else IrqInfoFlags(0)
        return IRQ_INFO.pack(IRQ_INFO.size, flags, index, count)

    def _set_irqs(self, message: Message) -> bytes:
        _, flags, index, start, count = self._fields(IRQ_SET, message)
        data = flags & (IrqSetFlags.DATA_NONE | IrqSetFlags.DATA_BOOL | IrqSetFlags.DATA_EVENTFD)
        action = flags & ~data
        if index != Irq.MSIX or start + count > self._function.vectors:
            raise OSError(errno.EINVAL, f"interrupts {start} to {start + count} of kind {index}")
        if action != IrqSetFlags.ACTION_TRIGGER:
            raise OSError(errno.ENOTTY, "vectors of MSI-X are masked in their table")
        if data == IrqSetFlags.DATA_EVENTFD and count:
            self._connect(message, start, count)
        elif data == IrqSetFlags.DATA_NONE and not count:
            self._function.disconnect_vectors()
        elif data == IrqSetFlags.DATA_NONE:
            self._trigger(start, b"\1" * count)
        elif data == IrqSetFlags.DATA_BOOL and len(message.body) >= IRQ_SET.size + count:
            self._trigger(start, message.body[IRQ_SET.size : IRQ_SET.size + count])
        else:
            raise OSError(errno.EINVAL, f"flags {flags:#x} with {count} interrupts")
        return b""

    def _connect(self, message: Message, start: int, count: int) -> None:
        if message.descriptors and len(message.descriptors) != count:
            raise OSError(errno.EINVAL, f"expected {count} descriptors or none, got {len(message.descriptors)}")
        for descriptor in message.descriptors:
            if not _is_eventfd(descriptor):
                raise OSError(errno.EINVAL, "expected eventfds")
        if message.descriptors:
            given, message.descriptors = message.descriptors, []
            for vector, descriptor in enumerate(given, start):
                # One that has counted to its end must not hold up the others.
                os.set_blocking(descriptor, False)
                self._function.connect_vector(vector, descriptor)
        else:
            for vector in range(start, start + count):
                self._function.connect_vector(vector, None)

    def _trigger(self, start: int, wanted: bytes) -> None:
        for vector, one in enumerate(wanted, start):
            if one:
                self._function.trigger(vector)

    def _read(self, message: Message) -> bytes:
        offset, region, count = self._fields(REGION_ACCESS, message, sized=False)
        if count > MAX_DATA:
            raise OSError(errno.E2BIG, f"{count} bytes at once")
        return REGION_ACCESS.pack(offset, region, count) + self._function.read(region, offset, count)

    def _write(self, message: Message) -> bytes:
        offset, region, count = self._fields(REGION_ACCESS, message, sized=False)
        data = message.body[REGION_ACCESS.size :]
        if len(data) != count:
            raise OSError(errno.EINVAL, f"expected {count} bytes, got {len(data)}")
        self._function.write(region, offset, data)
        return REGION_ACCESS.pack(offset, region, count)

    def _reset(self, _: Message) -> bytes:
        self._function.reset()
        return b""


def _is_eventfd(descriptor: int) -> bool:
    if stat.S_IFMT(os.fstat(descriptor).st_mode):
        return False
    return os.readlink(f"/proc/self/fd/{descriptor}") == "anon_inode:[eventfd]"


class _Port:
    """A socket that waits for the client of one function, and the connection while there is one."""

    def __init__(self, path: Path, function: PciFunction) -> None:
        self.path = path
        self.function = function
        self.connection: _Connection | None = None
        self._reported = 0
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        """Given up for a moment when the process has no other descriptor."""
        self.turned_away = 0
        """Clients that there was no descriptor for."""
        self.failed = 0
        """How often the NIC broke a rule of its buses, and was reset."""
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(path.stat().st_mode):
                path.unlink()
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(str(path))
        except OSError:
            self._listener.close()
            os.close(self._spare)
            raise
        self._listener.listen()
        self._listener.setblocking(False)

    def watched(self) -> list[tuple[int, int]]:
        """Descriptors, and what of them is waited for."""
        found = [(self._listener.fileno(), select.POLLIN)]
        if self.connection is not None:
            unsent = select.POLLOUT if self.connection.channel.has_unsent else 0
            found.append((self.connection.channel.fileno(), select.POLLIN | unsent))
        return found

    def serve(self) -> int:
        """Answer what has come; returns how many messages that were."""
        served = 0
        if self.connection is not None:
            try:
                served = self.connection.serve()
            except (ProtocolError, EOFError, OSError) as end:
                if isinstance(end, ProtocolError):
                    print(f"{self.path.name}: connection closed: {end}", file=sys.stderr, flush=True)
                self.disconnect()
        if served < _MAX_AT_ONCE:
            self._accept()  # and not before what is known of the one before: it may have gone
        return served

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            connected = self._take()
            if connected is None:
                return
            if self.connection is not None and self.connection.channel.is_hung_up:
                self.disconnect()  # it went before this one came
            if self.connection is None:
                self.connection = _Connection(self.function, Channel(connected))
            else:
                connected.close()  # a function has one host

    def _take(self) -> socket.socket | None:
        """Take the client that waits; None: there is no descriptor for it, and it is turned away.

        Left alone it would wake the server again and again. Raises as ``accept``.
        """
        try:
            return self._listener.accept()[0]
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
        os.close(self._spare)
        self.turned_away += 1
        with contextlib.suppress(OSError):
            self._listener.accept()[0].close()
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return None

    def report_faults(self) -> None:
        """Say what was refused, as a kernel says what its IOMMU refuses; not endlessly."""
        for fault in self.function.device.faults():
            self._reported += 1
            if self._reported <= _MAX_REPORTED:
                print(f"{self.path.name}: {fault}", file=sys.stderr, flush=True)

    def check(self) -> bool:
        """Reset the NIC if it has failed, and hang up on its client; return whether it had failed."""
        device = self.function.device
        try:
            device.run_until(device.cycles)  # a NIC that has failed says so until it is reset
        except DeviceError as error:
            print(f"{self.path.name}: connection closed: the NIC failed: {error}", file=sys.stderr, flush=True)
        else:
            return False
        self.failed += 1
        self._reset()
        return True

    def disconnect(self) -> None:
        if self.connection is not None:
            self._reset()

    def _reset(self) -> None:
        self._reported = 0
        if self.connection is not None:
            self.connection.channel.close()
            self.connection = None
        self.function.abandon()

    def close(self) -> None:
        self.disconnect()
        self._listener.close()
        os.close(self._spare)
        self.path.unlink(missing_ok=True)


class EndpointServer:
    """NICs on one network, each a PCI function behind a socket of its own.

    Parameters
    ----------
    network : Network
        Joins the NICs, and is driven by the server.
    devices : mapping of Path to (device, vectors, initialize)
        By sockets; see :class:`PciFunction` for what they are. The devices are attached to the network already.

    Raises OSError if a socket cannot be made. Closing it closes the devices.
    """

    def __init__(
        self, network: Network, devices: Mapping[Path, tuple[SimulatedDevice, int, Callable[[], object]]]
    ) -> None:
        self.network = network
        self.steps = 0
        self._stop = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._ports: list[_Port] = []
        with contextlib.ExitStack() as made:
            made.callback(self.close)
            for path, (device, vectors, initialize) in devices.items():
                self._ports.append(_Port(path, PciFunction(device, vectors, initialize)))
            made.pop_all()

    @property
    def functions(self) -> tuple[PciFunction, ...]:
        return tuple(port.function for port in self._ports)

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(port.path for port in self._ports)

    def run(self) -> None:
        """Serve until :meth:`stop` is called, by a handler of signals or another thread."""
        work = 0.0
        while True:
            # At rest: how long the last step took decides how often there is one.
            self._wait(None if not self._connected else 0 if self._active else max(_ASLEEP * work, self._pace))
            if self._stopped():
                return
            for _ in range(_MAX_ROUNDS):
                if not self._answer():
                    break
                self._wait(_FOLLOWING)
            if self._connected:
                begin = time.perf_counter()
                self._step()
                self.steps += 1
                for port in self._ports:
                    port.function.raise_interrupts()
                    port.report_faults()
                work = time.perf_counter() - begin

    def _step(self) -> None:
        """Let time pass; a NIC that fails meanwhile is reset. Raises DeviceError if none of them is the cause."""
        try:
            self.network.step(at_once=True)
        except DeviceError:
            if not sum([port.check() for port in self._ports]):
                raise

    def stop(self) -> None:
        os.eventfd_write(self._stop, 1)

    def close(self) -> None:
        for port in self._ports:
            port.close()
            port.function.device.close()
        self._ports = []
        if self._stop >= 0:
            os.close(self._stop)
            self._stop = -1

    def __enter__(self) -> "EndpointServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _pace(self) -> float:
        return self.network.latency / _IDLE_HZ

    @property
    def _connected(self) -> bool:
        return any(port.connection is not None for port in self._ports)

    @property
    def _active(self) -> bool:
        if self.network.moving:
            return True
        devices = [port.function.device for port in self._ports]
        return any(device.cycles - device.last_activity < _LINGER for device in devices)

    def _answer(self) -> int:
        return sum([port.serve() for port in self._ports])

    def _wait(self, seconds: float | None) -> None:
        poll = select.poll()
        poll.register(self._stop, select.POLLIN)
        for port in self._ports:
            for descriptor, events in port.watched():
                poll.register(descriptor, events)
        poll.poll(None if seconds is None else seconds * 1e3)

    def _stopped(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._stop)
            return True
        return False
