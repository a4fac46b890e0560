"""A vfio-user client in its shortest form: it says what tests want said, right or wrong."""

import array
import contextlib
import os
import socket
import struct
import threading
from pathlib import Path

from amoeba_model.network import Network
from amoeba_model.parameters import NicParameters
from amoeba_model.pci import Command as PciCommand
from amoeba_model.pci import Config
from amoeba_model.vfio import DMA_MAP, DMA_UNMAP, IRQ_SET, IrqSetFlags, Region
from amoeba_sim.vfio_user import EndpointServer

from tests.support.devices import DEVICES

__all__ = ["Client", "RefusedError", "sealed_memory", "serving"]

HEADER = struct.Struct("<HHIII")
ACCESS = struct.Struct("<QII")
VERSION, DMA_MAP_, DMA_UNMAP_, READ, WRITE, SET_IRQS, RESET = 1, 2, 3, 9, 10, 8, 13


class RefusedError(Exception):
    """The server answered with an error number."""

    def __init__(self, number):
        super().__init__(os.strerror(number))
        self.errno = number


class Client:
    def __init__(self, path, *, greet=True):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(30)
        self._socket.connect(str(path))
        self._number = 0
        self._lock = threading.Lock()
        if greet:
            try:
                self.ask(VERSION, struct.pack("<HH", 0, 0) + b'{"capabilities":{}}\0')
            except BaseException:
                self.close()
                raise

    def fileno(self):
        return self._socket.fileno()

    def send(self, command, body=b"", descriptors=(), flags=0, size=None):
        self._number = (self._number + 1) & 0xFFFF
        header = HEADER.pack(self._number, command, HEADER.size + len(body) if size is None else size, flags, 0)
        self.send_raw(header + body, descriptors)

    def send_raw(self, data, descriptors=()):
        extra = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        sent = self._socket.sendmsg([data], extra)
        if sent < len(data):  # the server may have hung up by now
            self._socket.sendall(data[sent:])

    def answer(self):
        """The body of the next answer. Raises RefusedError, and EOFError at the end."""
        number, _, size, flags, error = HEADER.unpack(self._exactly(HEADER.size))
        body = self._exactly(size - HEADER.size)
        assert flags & 0xF == 1, "a reply"
        assert number == self._number
        if flags & 0x20:
            raise RefusedError(error)
        return body

    def _exactly(self, size):
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def ask(self, command, body=b"", descriptors=()):
        with self._lock:
            self.send(command, body, descriptors)
            return self.answer()

    # What clients want

    def read(self, region, offset, size):
        return self.ask(READ, ACCESS.pack(offset, region, size))[ACCESS.size :]

    def write(self, region, offset, data):
        assert self.ask(WRITE, ACCESS.pack(offset, region, len(data)) + data) == ACCESS.pack(
            offset, region, len(data)
        )

    def post(self, region, offset, data):
        """Write without waiting for an answer."""
        with self._lock:
            self.send(WRITE, ACCESS.pack(offset, region, len(data)) + data, flags=0x10)

    def register(self, offset):
        return int.from_bytes(self.read(Region.BAR0, offset, 4), "little")

    def set_register(self, offset, value):
        self.write(Region.BAR0, offset, value.to_bytes(4, "little"))

    def enable(self, command=PciCommand.MEMORY | PciCommand.MASTER):
        self.write(Region.CONFIG, Config.COMMAND, int(command).to_bytes(2, "little"))

    def map(self, file, offset, iova, size, flags=3):
        self.ask(DMA_MAP_, DMA_MAP.pack(DMA_MAP.size, flags, offset, iova, size), [] if file is None else [file])

    def unmap(self, iova, size, flags=0):
        return DMA_UNMAP.unpack(self.ask(DMA_UNMAP_, DMA_UNMAP.pack(DMA_UNMAP.size, flags, iova, size)))[3]

    def set_irqs(self, start, count, descriptors=(), flags=IrqSetFlags.DATA_EVENTFD | IrqSetFlags.ACTION_TRIGGER):
        self.ask(SET_IRQS, IRQ_SET.pack(IRQ_SET.size, flags, 2, start, count), descriptors)

    def reset(self):
        self.ask(RESET)

    def close(self):
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def sealed_memory(size):
    """A descriptor of memory as virtual machines have it: it cannot shrink."""
    import fcntl

    file = os.memfd_create("memory", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, size)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return file


@contextlib.contextmanager
def serving(folder: Path, kinds=("model",), parameters=None, network=None):
    """A server in a thread: (server, sockets). NIC number n, from 1 on, has the MAC address 02:00:00:00:00:n."""
    parameters = parameters or NicParameters()
    network = network or Network()
    devices = {}
    for number, kind in enumerate(kinds, 1):
        device = DEVICES[kind](parameters)
        network.attach(device, bytes([2, 0, 0, 0, 0, number]))
        devices[Path(folder) / f"nic{number - 1}.sock"] = (device, parameters.contexts, lambda: None)
    with EndpointServer(network, devices) as server:
        failures = []

        def run():
            try:
                server.run()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=run, name="endpoint", daemon=True)
        thread.start()
        try:
            yield server, list(devices)
        finally:
            server.stop()
            thread.join(30)
        assert not failures, failures
        assert not thread.is_alive()
