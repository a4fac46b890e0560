"""A NIC on PCI Express as a device, and the errors without one: on a fake kernel with VFIO's rules.

Covers ``devices/pcie/binding.py``, ``devices/pcie/device.py``, ``devices/pcie/kernel.py``, ``devices/pcie/vfio.py``,
``core/buffers.py`` and ``amoeba_tools/cli/pcie.py``.
"""

import math
import mmap
import os
import select

import numpy as np
import pytest
from amoeba import open_cluster, open_device
from amoeba.core.buffers import address_of, allocate
from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError
from amoeba.devices.pcie import binding
from amoeba.devices.pcie.binding import bind, list_devices, unbind
from amoeba.devices.pcie.device import PcieDevice
from amoeba.devices.pcie.vfio import VfioFunction
from amoeba.libfabric.objects.fabric import Fabric
from amoeba_model.device import DeviceClosedError, DeviceError
from amoeba_model.pci import Command
from amoeba_tools.cli import app
from typer.testing import CliRunner

from tests.support.commands import usage_error
from tests.support.fake_vfio import FakeKernel, PlainPages
from tests.support.type1_rules import ANSWERS, ask
from tests.support.vfio_client import serving

ADDRESS = "0000:01:00.0"
OTHER = "0000:02:00.0"
PAGE = 4096


@pytest.fixture
def served(tmp_path):
    with serving(tmp_path, ["model", "model"]) as (server, sockets):
        yield server, dict(zip((ADDRESS, OTHER), sockets, strict=True))


@pytest.fixture
def make_kernel(served, tmp_path):
    pages = PlainPages()

    def make(**options):
        return FakeKernel(tmp_path / str(len(list(tmp_path.iterdir()))), served[1], pages=pages, **options)

    yield make
    assert pages.pinned == 0, "every map is taken back"
    pages.close()


@pytest.fixture
def kernel(make_kernel):
    return make_kernel()


@pytest.fixture
def device(kernel):
    with PcieDevice(ADDRESS, kernel) as device:
        yield device


def refuses(call):
    with pytest.raises(FabricError) as refused:
        call()
    return refused.value.fi_errno, str(refused.value)


# The fake


def test_the_fake_kernel_answers_as_linux_does_in_a_virtual_machine(kernel, tmp_path):
    (tmp_path / "page").write_bytes(bytes(PAGE))
    function = VfioFunction(ADDRESS, kernel)
    assert ask(function, tmp_path / "page") == ANSWERS
    function.close()


# Opening


def test_a_nic_is_opened_by_its_pci_address_with_or_without_its_domain(kernel):
    for address in ("0000:01:00.0", "01:00.0"):
        with PcieDevice(address, kernel) as device:
            assert device.name == "pcie:0000:01:00.0"
            assert device.read(0) == 0x414D0001
            assert (device.stepped, device.new_epoch(), device.traces, device.faults()) == (False, None, False, [])


@pytest.mark.parametrize("text", ["", "1:0.0", "0000:01:00.8", "/dev/vfio/1", "0000:01:00.0 "])
def test_what_is_no_address_is_refused(kernel, text):
    error, message = refuses(lambda: PcieDevice(text, kernel))
    assert error is Errno.FI_EINVAL
    assert "0000:01:00.0" in message


def test_a_device_that_is_not_there_is_said_to_be_missing(kernel):
    error, message = refuses(lambda: PcieDevice("0000:09:00.0", kernel))
    assert error is Errno.FI_ENODEV
    assert "amoeba pcie list" in message


@pytest.mark.parametrize(("driver", "said"), [("e1000", "the driver e1000"), (None, "no driver")])
def test_a_device_that_vfio_does_not_have_is_to_be_bound(kernel, driver, said):
    kernel.plug("0000:03:00.0", "7", driver=driver)
    error, message = refuses(lambda: PcieDevice("0000:03:00.0", kernel))
    assert error is Errno.FI_ENODEV
    assert said in message
    assert "amoeba pcie bind 0000:03:00.0" in message


def test_without_an_iommu_it_says_how_to_switch_it_on(kernel):
    kernel.plug("0000:03:00.0", None)
    error, message = refuses(lambda: PcieDevice("0000:03:00.0", kernel))
    assert error is Errno.FI_ENOSYS
    assert "intel_iommu=on" in message


def test_a_group_that_others_have_part_of_is_named_with_them(kernel):
    kernel.plug("0000:01:00.1", "0", driver="nvme")
    error, message = refuses(lambda: PcieDevice(ADDRESS, kernel))
    assert error is Errno.FI_EBUSY
    assert "0000:01:00.1 (nvme)" in message


def test_a_device_is_one_processs_at_a_time(kernel, device):
    error, message = refuses(lambda: PcieDevice(ADDRESS, kernel))
    assert error is Errno.FI_EBUSY
    assert "in use" in message
    device.close()
    PcieDevice(ADDRESS, kernel).close()


@pytest.mark.parametrize(
    ("path", "number", "error", "said"),
    [
        ("/dev/vfio/vfio", 2, Errno.FI_ENOSYS, "modprobe vfio-pci"),
        ("/dev/vfio/vfio", 13, Errno.FI_EACCES, "--user"),
        ("/dev/vfio/0", 13, Errno.FI_EACCES, "amoeba pcie bind 0000:01:00.0 --user"),
        ("/dev/vfio/0", 1, Errno.FI_EACCES, "driver/udev"),
    ],
)
def test_files_that_cannot_be_opened_are_explained(kernel, monkeypatch, path, number, error, said):
    real = kernel.open

    def fail(opened):
        if opened == path:
            raise OSError(number, os.strerror(number), opened)
        return real(opened)

    monkeypatch.setattr(kernel, "open", fail)
    found, message = refuses(lambda: PcieDevice(ADDRESS, kernel))
    assert found is error
    assert said in message
    assert path in message


def test_what_was_opened_is_closed_when_the_rest_fails(kernel, served):
    function = served[0].functions[0]
    real = function.size_of
    function.size_of = lambda region: 0 if region == 0 else real(region)
    error, message = refuses(lambda: PcieDevice(ADDRESS, kernel))
    assert (error, message) == (Errno.FI_ENODEV, "FI_ENODEV: 0000:01:00.0 has no BAR 0")
    assert kernel._files == {}


# Registers, interrupts, time


def test_registers_are_words(device, served):
    device.write(0x30, 0xDEADBEEF)
    assert device.read(0x30) == 0xDEADBEEF
    for offset in (-4, 2, 0x4_0000):
        with pytest.raises(DeviceError, match="multiple of 4 below 0x40000"):
            device.read(offset)
        with pytest.raises(DeviceError, match="multiple of 4 below 0x40000"):
            device.write(offset, 0)
    for value in (-1, 1 << 32):
        with pytest.raises(DeviceError, match="32 bits"):
            device.write(0x30, value)


def test_the_clock_goes_on_by_itself(device):
    before = device.cycles
    device.advance()
    assert select.select([], [], [], 0.05) == ([], [], [])
    assert device.cycles > before


def test_interrupts_come_by_a_descriptor_and_are_told_once(device, served):
    function = served[0].functions[0]
    assert device.wait(0) == 0
    function.trigger(0)
    function.trigger(3)
    assert select.select([device], [], [], 5)[0]
    assert device.wait(5) == 0b1001
    for seconds in (1e12, math.inf):  # more than the system counts
        function.trigger(1)
        assert device.wait(seconds) == 0b10
    assert not select.select([device], [], [], 0)[0]
    assert device.wait(0.01) == 0


def test_a_nic_that_is_gone_is_said_to_be(device, served):
    served[0].functions[0]._config[4] = 0  # decodes nothing any more
    with pytest.raises(DeviceError, match=r"pcie:0000:01:00\.0 is gone"):
        device.read(0x10)


# Memory


def test_grants_become_maps_that_are_counted_as_pinned(device, kernel):
    memory = allocate(64 * PAGE)
    start = address_of(memory)
    device.grant(start, 64 * PAGE)
    device.grant(start + 100, 8, writable=False)
    assert (device.pinned, kernel.ioctls["map"]) == (64 * PAGE, 1)
    device.revoke(start, 64 * PAGE)
    assert device.pinned == 64 * PAGE
    device.revoke(start + 100, 8)
    assert device.pinned == 0


def test_memory_that_may_only_be_read_can_be_granted_for_reading(device, tmp_path):
    (tmp_path / "file").write_bytes(bytes(PAGE))
    with open(tmp_path / "file", "rb") as file, mmap.mmap(file.fileno(), PAGE, access=mmap.ACCESS_READ) as view:
        start = np.frombuffer(view, np.uint8).ctypes.data
        device.grant(start, 8, writable=False)
        assert refuses(lambda: device.grant(start + 64, 8))[0] is Errno.FI_EFAULT
        device.revoke(start, 8)
        assert device.pinned == 0


def test_what_is_no_memory_is_refused(device):
    memory = mmap.mmap(-1, PAGE)
    start = address_of(memoryview(memory))
    memory.close()
    error, message = refuses(lambda: device.grant(start & ~(PAGE - 1) | 1 << 46, 8))
    assert error is Errno.FI_EFAULT
    assert "memory that this process may use" in message


def test_a_limit_of_locked_memory_is_named_with_what_is_needed(make_kernel):
    with PcieDevice(ADDRESS, make_kernel(memlock=8 << 20)) as device:
        memory = allocate(16 << 20)
        device.grant(address_of(memory), PAGE)
        error, message = refuses(lambda: device.grant(address_of(memory), 16 << 20))
        assert error is Errno.FI_ENOMEM
        assert str((16 << 20) + PAGE) in message
        assert "ulimit -l" in message
        assert device.pinned == PAGE


def test_more_maps_than_the_kernel_has_are_refused(make_kernel):
    with PcieDevice(ADDRESS, make_kernel(dma_avail=4)) as device:
        memory = allocate(16 * PAGE)
        start = address_of(memory)
        for page in range(4):
            device.grant(start + 2 * page * PAGE, 8)
        error, message = refuses(lambda: device.grant(start + 9 * PAGE, 8))
        assert error is Errno.FI_ENOSPC
        assert "dma_entry_limit" in message


def test_large_memory_begins_at_a_huge_page():
    for size in (2 << 20, (5 << 20) + 1):
        memory = allocate(size)
        assert address_of(memory) % (2 << 20) == 0
        assert memory.nbytes == -(-size // PAGE) * PAGE
        memory[-1] = 1
        assert not any(memory[: 1 << 16])


# Life


def test_closing_ends_dma_before_anything_else_goes(kernel, served):
    device = PcieDevice(ADDRESS, kernel)
    memory = allocate(PAGE)
    device.grant(address_of(memory), PAGE)
    function = served[0].functions[0]
    assert function.command & Command.MASTER
    commands = []
    real = kernel.pwrite
    kernel.pwrite = lambda descriptor, data, offset: (commands.append((data, len(function.memory))), real(
        descriptor, data, offset))  # fmt: skip
    device.close()
    device.close()
    assert commands == [(bytes([Command.MEMORY, 0]), 1)]
    assert kernel._files == {}
    for call in (lambda: device.read(0), lambda: device.write(0, 0), lambda: device.grant(0, 8), device.advance,
                 lambda: device.revoke(0, 8), lambda: device.wait(0), lambda: device.cycles, device.fileno,
                 device.faults, device.reset):  # fmt: skip
        with pytest.raises(DeviceClosedError, match=r"pcie:0000:01:00\.0 is closed"):
            call()


def test_a_reset_forgets_registers_and_keeps_grants(device, served):
    memory = allocate(PAGE)
    device.grant(address_of(memory), PAGE)
    device.write(0x30, 77)
    served[0].functions[0].trigger(1)
    device.reset()
    assert device.read(0x30) != 77
    assert served[0].functions[0].command == Command.MEMORY | Command.MASTER
    assert device.wait(0) == 0
    assert device.pinned == PAGE
    device.revoke(address_of(memory), PAGE)


def test_a_child_that_was_forked_lets_go_and_its_parent_goes_on(kernel):
    closed, parent, close = [], os.getpid(), kernel.close
    kernel.close = lambda descriptor: close(descriptor) if os.getpid() == parent else closed.append(descriptor)
    device = PcieDevice(ADDRESS, kernel)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            device.read(0)
            said = b"worked"
        except DeviceClosedError:
            said = f"closed {len(closed)}".encode()
        os.write(writer, said)
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"closed 3"
    os.close(reader)
    os.close(writer)
    assert device.read(0) == 0x414D0001
    device.close()


# Fabrics


@pytest.fixture
def as_linux(kernel, monkeypatch):
    """The fake kernel where nobody names one."""
    for module in ("amoeba.devices.pcie.device", "amoeba.devices.pcie.binding"):
        monkeypatch.setattr(f"{module}.LinuxKernel", lambda: kernel)
    return kernel


def test_kinds_name_it_and_its_own_addresses_stay(as_linux, served):
    own = bytes([2, 0, 0, 0, 9, 9])
    for index, function in enumerate(served[0].functions):
        values = {0x30: 0x909 + index, 0x34: 0x200, 0x38: 0x0A000101 + index}
        function._initialize = lambda write=function.device.write, values=values: list(
            map(write, values, values.values())
        )
    with open_device(f"pcie:{ADDRESS}") as device:
        assert device.name == f"pcie:{ADDRESS}"
    with open_cluster([f"pcie:{ADDRESS}", f"pcie:{OTHER}"]) as fabric:
        assert [nic.mac for nic in fabric.nics] == [own, own[:5] + b"\x0a"]
        assert fabric.network is None
        assert len(fabric.getinfo()) > 0


def test_nics_without_addresses_get_those_of_their_number(as_linux):
    with open_cluster([f"pcie:{ADDRESS}", f"pcie:{OTHER}"]) as fabric:
        assert [nic.mac.hex() for nic in fabric.nics] == ["020000000001", "020000000002"]


@pytest.mark.parametrize("kinds", [["model", f"pcie:{ADDRESS}"], [f"pcie:{ADDRESS}", "model"]])
def test_simulated_nics_are_not_mixed_with_others(as_linux, kinds):
    error, message = refuses(lambda: open_cluster(kinds))
    assert error is Errno.FI_EINVAL
    assert "simulated" in message
    assert as_linux._files == {}


def test_what_it_pins_before_anything_is_registered_is_known(kernel):
    with Fabric([PcieDevice(ADDRESS, kernel)]) as fabric:
        domain = fabric.domain(0)
        endpoint = domain.endpoint(cq=domain.cq_open(), av=domain.av_open())
        parameters = fabric.nics[0].parameters
        answers = parameters.target_pdcs * parameters.window * parameters.payload
        assert answers < fabric.devices[0].pinned < answers + (1 << 20)
        endpoint.close()


# Commands


def invoke(*arguments):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def test_info_tells_what_is_pinned(as_linux):
    result = invoke("info", "-v", "--device", f"pcie:{ADDRESS}")
    assert result.exit_code == 0, result.output
    assert "pcie:0000:01:00.0" in result.output
    assert "64 MiB, 0.25 MiB per context that receives messages: pinned" in result.output


def test_commands_say_in_a_line_what_is_wrong(as_linux):
    result = invoke("info", "--device", "pcie:0000:09:00.0")
    assert result.exit_code == 1
    assert "there is no PCI device 0000:09:00.0" in result.output
    assert "'isa'" in usage_error(invoke("info", "--device", "isa"))


def test_devices_are_listed_with_what_they_may_be_used_as(as_linux):
    as_linux.plug("0000:00:02.0", "5", ids=(0x8086, 0x1234), driver="e1000")
    assert [(found.address, found.driver, found.group, found.is_amoeba) for found in list_devices()] == [
        (ADDRESS, "vfio-pci", "0", True), (OTHER, "vfio-pci", "1", True), ("0000:00:02.0", "e1000", "5", False)
    ]  # fmt: skip
    listed = invoke("pcie", "list").output
    assert "pcie:0000:01:00.0" in listed
    assert "e1000" not in listed
    assert "e1000" in invoke("pcie", "list", "--all").output
    assert '"group": "1"' in invoke("pcie", "list", "--json").output


def test_binding_asks_for_vfio_pci_unbinds_and_probes(as_linux, monkeypatch):
    as_linux.plug("0000:03:00.0", "7", driver="e1000")
    pci = as_linux.sysfs / "bus" / "pci"
    written = []

    def hand_over(kernel, address, driver):
        real(kernel, address, driver)
        written.append((pci / "devices" / address / "driver_override").read_text())
        written.append((pci / "drivers" / "e1000" / "unbind").read_text())
        written.append((pci / "drivers_probe").read_text())
        (pci / "devices" / address / "driver").unlink()
        (pci / "devices" / address / "driver").symlink_to(pci / "drivers" / "vfio-pci")

    real = binding._hand_over
    monkeypatch.setattr(binding, "_hand_over", hand_over)
    bound = "0000:03:00.0: driver vfio-pci, IOMMU group 7\n"
    assert invoke("pcie", "bind", "03:00.0").output == bound
    assert invoke("pcie", "bind", "03:00.0", "0000:03:00.0").output == 2 * bound
    assert written == ["vfio-pci\n", "0000:03:00.0", "0000:03:00.0"]
    monkeypatch.undo()
    unbind("0000:03:00.0", as_linux)
    assert (pci / "devices" / "0000:03:00.0" / "driver_override").read_text() == "\n"
    assert (pci / "drivers" / "vfio-pci" / "unbind").read_text() == "0000:03:00.0"


def test_binding_without_an_iommu_or_a_device_says_so(as_linux):
    as_linux.plug("0000:03:00.0", None, driver="e1000")
    assert refuses(lambda: bind("0000:03:00.0", kernel=as_linux))[0] is Errno.FI_ENOSYS
    assert refuses(lambda: bind("0000:08:00.0", kernel=as_linux))[0] is Errno.FI_ENODEV
