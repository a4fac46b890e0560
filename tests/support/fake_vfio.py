"""A kernel with VFIO, for tests: type 1's rules in front of vfio-user servers.

The driver's calls go to a :class:`Client` of the server of each function. Memory of this process
becomes memory that a server can map, where it lies: pages are copied to a memfd, which then takes their place. So the
driver's own pages are shared as a board would share them, and a map that is left behind names the old page.
"""

import contextlib
import ctypes
import errno
import functools
import mmap
import os
import struct
import subprocess
import tempfile
from bisect import bisect_right
from pathlib import Path

from amoeba_model.pci import DEVICE_ID, VENDOR_ID, Command, Config
from amoeba_model.vfio import DMA_MAP, DMA_UNMAP, IRQ_SET, Region

from tests.support.vfio_client import Client, RefusedError, sealed_memory

__all__ = ["FakeKernel", "PlainPages", "SharedPages"]

PAGE = 4096
BASE = 0x3B64
INDEX_SHIFT = 40
HOLE = (0xFEE0_0000, 0xFEEF_FFFF)
LAST = (1 << 48) - 1
_MEMORY = 1 << 34
_PROT_READ, _PROT_WRITE = 1, 2

_SOURCE = Path(__file__).with_name("shared_pages.cpp")


@functools.cache
def _helper():
    """The calls of ``shared_pages.cpp``, during which no other thread of Python runs."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "shared_pages.so"
        subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-o", library, _SOURCE], check=True)
        helper = ctypes.PyDLL(str(library))
    u64 = ctypes.c_uint64
    helper.share_pages.argtypes = [u64, u64, ctypes.c_int, ctypes.c_int, u64, u64]
    helper.is_shared.argtypes = [u64, u64]
    return helper


class SharedPages:
    """Pages of this process that lie in a memfd."""

    def __init__(self):
        self.file = sealed_memory(_MEMORY)
        self._alias = mmap.mmap(self.file, _MEMORY)
        self._alias_address = ctypes.addressof(ctypes.c_char.from_buffer(self._alias))
        self._slots = {}
        """Offset in the file and rights, by address of the page."""
        self._next = 0
        self._used = {}
        """How many maps there are of each page."""

    def pin(self, address, size, write):
        """[(offset, bytes)] of the file, in order, that hold this memory. Raises EFAULT for what is none."""
        pages = range(address, address + size, PAGE)
        missing = [page for page in pages if not self._is_shared(page, write)]
        for start, end in _runs(missing):
            self._share(start, end, write)
        offsets = [self._slots[page][0] for page in pages]
        for page in pages:
            self._used[page] = self._used.get(page, 0) + 1
        return [(start, end - start) for start, end in _runs(offsets)]

    def unpin(self, address, size):
        for page in range(address, address + size, PAGE):
            self._used[page] -= 1
            if not self._used[page]:
                del self._used[page]

    def _is_shared(self, page, write):
        """Whether what lies here is still the page of the file: others may have been mapped in its place."""
        slot, rights = self._slots.get(page, (None, 0))
        if slot is None or (write and not rights & _PROT_WRITE):
            return False
        # Of one that is in use it is known, and a NIC might see what is written to find out.
        return page in self._used or bool(_helper().is_shared(page, self._alias_address + slot))

    def _share(self, start, end, write):
        rights = _rights(start, end)
        if rights is None or not rights & _PROT_READ or (write and not rights & _PROT_WRITE):
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        size, offset = end - start, self._next
        if offset + size > _MEMORY:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        self._next += size
        error = _helper().share_pages(start, size, rights, self.file, offset, self._alias_address + offset)
        assert not error, os.strerror(error)
        for page in range(start, end, PAGE):
            self._slots[page] = offset + page - start, rights

    def close(self):
        os.close(self.file)


class PlainPages:
    """Stands for :class:`SharedPages` where no NIC looks: memory of the process stays where it is."""

    def __init__(self):
        self.file = sealed_memory(_MEMORY)
        self.pinned = 0

    def pin(self, address, size, write):
        rights = _rights(address, address + size)
        if rights is None or (write and not rights & _PROT_WRITE):
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        self.pinned += size
        return [(0, size)]

    def unpin(self, address, size):
        self.pinned -= size

    def close(self):
        os.close(self.file)


def _runs(places):
    """(start, end) of pages that follow each other."""
    found = []
    for place in places:
        if found and found[-1][1] == place:
            found[-1][1] = place + PAGE
        else:
            found.append([place, place + PAGE])
    return [tuple(run) for run in found]


def _rights(start, end):
    """The access of this process to all of [start, end); None if a part is missing."""
    rights, at = _PROT_READ | _PROT_WRITE, start
    with open("/proc/self/maps") as maps:
        for line in maps:
            where, permissions, *_ = line.split()
            first, last = (int(text, 16) for text in where.split("-"))
            if last <= at:
                continue
            if first > at:
                return None
            rights &= (permissions[0] == "r") * _PROT_READ | (permissions[1] == "w") * _PROT_WRITE
            at = last
            if at >= end:
                return rights
    return None


class _Container:
    def __init__(self):
        self.groups = []
        self.type = None
        self.maps = []
        """(iova, size, address), in order."""

    def clients(self):
        return [group.client for group in self.groups if group.client is not None]


class _Group:
    def __init__(self, address):
        self.address = address
        self.container = None
        self.client = None


class _Device:
    def __init__(self, group):
        self.group = group


class _Words:
    def __init__(self, client, size):
        self._client = client
        self._size = size

    def __len__(self):
        return self._size // 4

    def __getitem__(self, index):
        assert 0 <= index < len(self)
        try:
            return self._client.register(4 * index)
        except (RefusedError, EOFError, OSError):
            return 0xFFFF_FFFF

    def __setitem__(self, index, value):
        assert 0 <= index < len(self)
        with contextlib.suppress(OSError):  # nobody is notified of a posted write that is lost
            self._client.post(Region.BAR0, 4 * index, struct.pack("<I", value))


class FakeKernel:
    """Functions by their addresses, behind the servers' sockets; each in an IOMMU group of its own.

    ``memlock``: bytes that may be pinned; ``dma_avail``: maps that there may be. ``ioctls`` counts calls by number.
    """

    def __init__(self, folder, sockets, *, memlock=1 << 40, dma_avail=65535, pages=None):
        self.sysfs = folder / "sys"
        self.memlock = memlock
        self.dma_avail = dma_avail
        self.ioctls = {}
        self.pages = pages or SharedPages()
        self._sockets = dict(sockets)
        self._files = {}
        self._busy = set()
        self._descriptors = iter(range(1 << 20, 1 << 30))
        for number, address in enumerate(self._sockets):
            self.plug(address, str(number))

    # What sysfs shows

    def plug(self, address, group, ids=(VENDOR_ID, DEVICE_ID), driver="vfio-pci"):
        """Show a device of an IOMMU group."""
        device = self.sysfs / "bus" / "pci" / "devices" / address
        device.mkdir(parents=True)
        for name, value in zip(("vendor", "device"), ids, strict=True):
            (device / name).write_text(f"{value:#06x}\n")
        if group is not None:
            members = self.sysfs / "kernel" / "iommu_groups" / group / "devices"
            members.mkdir(parents=True, exist_ok=True)
            (members / address).symlink_to(device)
            (device / "iommu_group").symlink_to(members.parent)
        if driver is not None:
            folder = self.sysfs / "bus" / "pci" / "drivers" / driver
            folder.mkdir(parents=True, exist_ok=True)
            (device / "driver").symlink_to(folder)

    # Files

    def open(self, path):
        if path == "/dev/vfio/vfio":
            return self._file(_Container())
        number = path.removeprefix("/dev/vfio/")
        members = self.sysfs / "kernel" / "iommu_groups" / number / "devices"
        if not number.isdecimal() or not members.exists():
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if number in self._busy:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
        self._busy.add(number)
        return self._file(_Group(number))

    def _file(self, thing):
        descriptor = next(self._descriptors)
        self._files[descriptor] = thing
        return descriptor

    def close(self, descriptor):
        thing = self._files.pop(descriptor)
        if isinstance(thing, _Device):
            thing.group.client.close()
            thing.group.client = None
        elif isinstance(thing, _Group):
            assert thing.client is None, "a group is closed after its device"
            self._busy.discard(thing.address)
            if thing.container is not None:
                thing.container.groups.remove(thing)
                if not thing.container.groups:
                    self._drop(thing.container, thing.container.maps)
        elif isinstance(thing, _Container):
            self._drop(thing, thing.maps)

    def pread(self, descriptor, size, offset):
        region, offset = divmod(offset, 1 << INDEX_SHIFT)
        return self._asked(lambda: self._files[descriptor].group.client.read(region, offset, size))

    def pwrite(self, descriptor, data, offset):
        region, offset = divmod(offset, 1 << INDEX_SHIFT)
        self._asked(lambda: self._files[descriptor].group.client.write(region, offset, data))

    def map_words(self, descriptor, size, offset):
        assert offset == Region.BAR0 << INDEX_SHIFT
        return _Words(self._files[descriptor].group.client, size)

    def unmap_words(self, words):
        words._client = None

    @staticmethod
    def _asked(call):
        try:
            return call()
        except RefusedError as error:
            raise OSError(error.errno, os.strerror(error.errno)) from None
        except EOFError:
            raise OSError(errno.EIO, os.strerror(errno.EIO)) from None

    # Calls

    def ioctl(self, descriptor, request, argument):
        name = _NAMES.get(request - BASE)
        thing = self._files[descriptor]
        handler = getattr(self, f"_{type(thing).__name__.strip('_').lower()}_{name}", None)
        if handler is None:
            raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
        self.ioctls[name] = self.ioctls.get(name, 0) + 1
        return handler(thing, argument) or 0

    def _container_api_version(self, _, __):
        return 0

    def _container_check_extension(self, _, kind):
        return int(kind in (1, 3))

    def _container_set_iommu(self, container, kind):
        if not container.groups or container.type is not None:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        container.type = kind

    def _viable(self, group):
        members = self.sysfs / "kernel" / "iommu_groups" / group.address / "devices"
        drivers = [os.readlink(member / "driver") for member in members.iterdir() if (member / "driver").is_symlink()]
        return all(os.path.basename(driver) == "vfio-pci" for driver in drivers)

    def _group_status(self, group, argument):
        struct.pack_into("<II", argument, 0, 8, int(self._viable(group)) | (2 if group.container else 0))

    def _group_set_container(self, group, argument):
        if not self._viable(group):
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        group.container = self._files[struct.unpack("<i", argument)[0]]
        group.container.groups.append(group)

    def _group_get_device(self, group, argument):
        address = bytes(argument).rstrip(b"\0").decode()
        if group.container is None or group.container.type is None or address not in self._sockets:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        try:
            group.client = Client(self._sockets[address])
        except (OSError, EOFError):
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV)) from None
        self._set_command(group.client, Command.MEMORY)
        return self._file(_Device(group))

    @staticmethod
    def _set_command(client, command):
        client.write(Region.CONFIG, Config.COMMAND, int(command).to_bytes(2, "little"))

    def _device_info(self, device, argument):
        argument[:16] = device.group.client.ask(4, bytes(argument[:16]))

    def _device_region_info(self, device, argument):
        argument[:] = device.group.client.ask(5, bytes(argument))
        (index,) = struct.unpack_from("<I", argument, 8)
        struct.pack_into("<Q", argument, 24, index << INDEX_SHIFT)

    def _device_irq_info(self, device, argument):
        argument[:] = device.group.client.ask(7, bytes(argument))

    def _device_set_irqs(self, device, argument):
        _, flags, _, _, count = IRQ_SET.unpack_from(argument)
        descriptors = struct.unpack_from(f"<{count if flags & 4 else 0}i", argument, IRQ_SET.size)
        self._asked(lambda: device.group.client.ask(8, bytes(argument[: IRQ_SET.size]), descriptors))

    def _device_reset(self, device, _):
        client = device.group.client
        before = client.read(Region.CONFIG, Config.COMMAND, 2)
        client.reset()
        client.write(Region.CONFIG, Config.COMMAND, before)

    # Type 1

    def _container_iommu_info(self, container, argument):
        struct.pack_into("<IIQII", argument, 0, 128, 3, PAGE, 24, 0)
        struct.pack_into("<HHIIIQQQQ", argument, 24, 1, 1, 72, 2, 0, 0, HOLE[0] - 1, HOLE[1] + 1, LAST)
        struct.pack_into("<HHII", argument, 72, 3, 1, 0, self.dma_avail - len(container.maps))

    def _container_map(self, container, argument):
        argsz, flags, address, iova, size = DMA_MAP.unpack(argument)
        if argsz < DMA_MAP.size or not size or (address | iova | size) % PAGE or not flags & 3 or flags & ~3:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        if iova + size - 1 > LAST or not (iova + size <= HOLE[0] or iova > HOLE[1]):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        index = bisect_right(container.maps, (iova, size, address))
        for start, length, _ in container.maps[max(index - 1, 0) : index + 1]:
            if start < iova + size and iova < start + length:
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
        if len(container.maps) >= self.dma_avail:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if sum(length for _, length, _ in container.maps) + size > self.memlock:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        at = iova
        for offset, length in self.pages.pin(address, size, bool(flags & 2)):
            for client in container.clients():
                self._asked(lambda client=client, at=at, offset=offset, length=length: client.map(
                    self.pages.file, offset, at, length, flags))  # fmt: skip
            at += length
        container.maps.insert(index, (iova, size, address))

    def _container_unmap(self, container, argument):
        _, flags, iova, size = DMA_UNMAP.unpack(argument)
        if not size or (iova | size) % PAGE or flags:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        gone = [one for one in container.maps if one[0] < iova + size and iova < one[0] + one[1]]
        if any(start < iova or start + length > iova + size for start, length, _ in gone):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._drop(container, gone)
        struct.pack_into("<Q", argument, 16, sum(length for _, length, _ in gone))

    def _drop(self, container, gone):
        for start, length, address in list(gone):
            container.maps.remove((start, length, address))
            for client in container.clients():
                self._asked(lambda client=client, start=start, length=length: client.unmap(start, length))
            self.pages.unpin(address, length)


_NAMES = dict(
    enumerate(
        [
            "api_version", "check_extension", "set_iommu", "status", "set_container", "unset_container", "get_device",
            "info", "region_info", "irq_info", "set_irqs", "reset", "iommu_info", "map", "unmap",
        ]
    )
)  # fmt: skip
