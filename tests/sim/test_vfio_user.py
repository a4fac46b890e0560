"""NICs behind vfio-user: what a host finds, and what a host that is hostile cannot do.

Covers ``vfio_user_function.py``, ``vfio_user_memory.py``, ``vfio_user_protocol.py``, ``amoeba_model/vfio.py`` and
``amoeba_model/pci.py``.
"""

import contextlib
import errno
import gc
import mmap
import os
import select
import socket
import struct
import time

import pytest
from amoeba_model.descriptors import COMPLETION, TX_DESCRIPTOR, DescriptorFlags, DescriptorOpcode
from amoeba_model.device import DeviceError
from amoeba_model.nic import ModelDevice
from amoeba_model.parameters import NicParameters
from amoeba_model.pci import REFUSED_OFFSET
from amoeba_model.registers import DOORBELL_PAGE, ContextControl, bar_blocks
from amoeba_model.vfio import IrqSetFlags, UnmapFlags
from amoeba_model.wire.uet import ReturnCode
from amoeba_sim import vfio_user
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.devices import DEVICES
from tests.support.vfio_client import HEADER, VERSION, Client, RefusedError, sealed_memory, serving

PAGE = 4096
IOVA = 0x7F12_3456_0000
BAR0, BAR2, CONFIG = 0, 2, 7
BLOCKS = {placed.block.name: placed for placed in bar_blocks(NicParameters())}
NONE, BOOL, EVENTFD = IrqSetFlags.DATA_NONE, IrqSetFlags.DATA_BOOL, IrqSetFlags.DATA_EVENTFD
TRIGGER = IrqSetFlags.ACTION_TRIGGER


@pytest.fixture
def served(tmp_path):
    with serving(tmp_path) as (server, sockets):
        yield server, sockets[0]


@pytest.fixture
def client(served):
    with Client(served[1]) as client:
        yield client


@contextlib.contextmanager
def refused(number):
    with pytest.raises(RefusedError) as refusal:
        yield
    assert refusal.value.errno == number


@pytest.fixture
def memory():
    """A descriptor of 16 pages that cannot shrink, and a view of them."""
    file = sealed_memory(16 * PAGE)
    with mmap.mmap(file, 16 * PAGE) as view:
        yield file, view
    os.close(file)


# What a host finds


def test_a_host_finds_a_network_controller_with_two_bars_and_its_capabilities(client):
    config = client.read(CONFIG, 0, 4096)
    assert struct.unpack_from("<HH", config) == (0x1234, 0xA0EB)
    assert config[9:12] == bytes([0, 0, 2])
    assert config[6] & 0x10
    found, at = [], config[0x34]
    while at:
        found.append(config[at])
        at = config[at + 1]
    assert found == [0x01, 0x11, 0x10]
    assert struct.unpack_from("<H", config, 0x52)[0] == NicParameters().contexts - 1
    assert struct.unpack_from("<I", config, 0x74)[0] >> 28 == 1, "function level reset"


@pytest.mark.parametrize(("bar", "size"), [(0, 0x4_0000), (2, 0x1000)])
def test_a_bar_tells_its_size_to_whoever_writes_ones(client, bar, size):
    client.write(CONFIG, 0x10 + 4 * bar, b"\xff" * 8)
    low, high = struct.unpack("<II", client.read(CONFIG, 0x10 + 4 * bar, 8))
    assert (high << 32 | low) & ~0xF == (1 << 64) - size
    assert low & 0xF == 4


def test_the_device_says_how_many_regions_and_interrupts_it_has(client):
    argsz, flags, regions, kinds = struct.unpack("<IIII", client.ask(4, struct.pack("<IIII", 16, 0, 0, 0)))
    assert (argsz, flags, regions, kinds) == (16, 3, 9, 5)
    sizes = [
        struct.unpack_from("<Q", client.ask(5, struct.pack("<IIIIQQ", 32, 0, n, 0, 0, 0)), 16)[0] for n in range(9)
    ]
    assert sizes == [0x4_0000, 0, 0x1000, 0, 0, 0, 0, 4096, 0]
    counts = [struct.unpack_from("<I", client.ask(7, struct.pack("<IIII", 16, 0, n, 0)), 12)[0] for n in range(5)]
    assert counts == [0, 0, NicParameters().contexts, 0, 0]
    for command in (5, 7):
        with refused(errno.EINVAL):
            client.ask(command, struct.pack("<IIIIQQ", 32, 0, 9, 0, 0, 0))


def test_registers_answer_only_while_memory_is_decoded(client):
    with refused(errno.EIO):
        client.register(0)
    client.enable()
    assert client.register(0) == 0x414D0001
    assert struct.unpack("<II", client.read(BAR0, 0, 8)) == (0x414D0001, 1)
    mac = BLOCKS["device"].address("mac_low")
    client.write(BAR0, mac, struct.pack("<I", 0xDEADBEEF))
    assert client.register(mac) == 0xDEADBEEF
    client.enable(0)
    with refused(errno.EIO):
        client.set_register(mac, 1)


@pytest.mark.parametrize(("offset", "size"), [(0, 1), (2, 2), (2, 4), (4, 8), (0, 12), (0x4_0000, 4), (0x3_FFFC, 8)])
def test_registers_are_accessed_as_such(client, offset, size):
    client.enable()
    with refused(errno.EINVAL):
        client.read(BAR0, offset, size)
    with refused(errno.EINVAL):
        client.write(BAR0, offset, bytes(size))
    assert client.read(BAR2, REFUSED_OFFSET, 4) == b"\1\0\0\0", "a host does not hear of a posted write"
    client.write(BAR2, REFUSED_OFFSET, bytes(4))
    client.reset()
    client.enable()
    assert client.read(BAR2, REFUSED_OFFSET, 4) == b"\1\0\0\0"


def test_the_table_of_msix_keeps_what_is_written_and_the_pending_bits_stay(client):
    client.enable()
    client.write(BAR2, 0, b"\x5a" * 64)
    client.write(BAR2, 0x7F8, b"\xff" * 16)
    assert client.read(BAR2, 0, 64) == b"\x5a" * 64
    assert client.read(BAR2, 0x7F8, 16) == b"\xff" * 8 + bytes(8)


def test_what_is_read_only_in_the_configuration_stays(client):
    before = client.read(CONFIG, 0, 4096)
    client.write(CONFIG, 0, b"\xff" * 0x78)
    client.write(CONFIG, 0x100, b"\xff" * 0xF00)
    after = client.read(CONFIG, 0, 4096)
    changed = {at for at in range(4096) if before[at] != after[at]}
    assert changed <= {4, 5, *range(0x10, 0x20), 0x3C, 0x44, 0x53}
    assert after[4:6] == bytes([6, 4])


# Memory and interrupts


def set_up_context(client, base):
    """Enable context 0 with rings of 16 entries in the pages at ``base``, and arm its interrupt."""
    wide = {"transmit_base": base, "completion_base": base + PAGE}
    values = {f"{name}_low": value & 0xFFFF_FFFF for name, value in wide.items()}
    values |= {f"{name}_high": value >> 32 for name, value in wide.items()}
    values |= {"transmit_size": 4, "completion_size": 4}
    for name, value in (values | {"control": ContextControl.ENABLE}).items():
        client.set_register(BLOCKS["contexts"].address(name), int(value))
    client.set_register(DOORBELL_PAGE + 8, 0)


def post_nop(client, view):
    nop = TX_DESCRIPTOR.pack(opcode=DescriptorOpcode.NOP, flags=DescriptorFlags.COMPLETION, context=0x1234)
    view[: TX_DESCRIPTOR.size] = nop
    client.set_register(DOORBELL_PAGE, 1)


def wait_for(what, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.parametrize("kind", ["model", "rtl"])
def test_a_nic_reads_and_writes_the_hosts_memory_and_interrupts_it(tmp_path, memory, kind):
    file, view = memory
    with serving(tmp_path, [kind]) as (_, (path,)), Client(path) as client:
        event = os.eventfd(0, os.EFD_NONBLOCK)
        client.enable()
        # The two pages follow each other for the NIC, not in the file.
        client.map(file, 5 * PAGE, IOVA, PAGE)
        client.map(file, 2 * PAGE, IOVA + PAGE, PAGE)
        client.set_irqs(0, 1, [event])
        set_up_context(client, IOVA)
        descriptor = TX_DESCRIPTOR.pack(opcode=DescriptorOpcode.NOP, flags=DescriptorFlags.COMPLETION)
        view[5 * PAGE : 5 * PAGE + TX_DESCRIPTOR.size] = descriptor
        client.set_register(DOORBELL_PAGE, 1)
        assert select.select([event], [], [], 20)[0]
        assert COMPLETION.unpack(view[2 * PAGE : 2 * PAGE + COMPLETION.size])["status"] == ReturnCode.OK
        assert os.eventfd_read(event) == 1
        os.close(event)


@pytest.mark.parametrize("how", ["not mapped", "read only", "unmapped", "no bus master", "nobody's memory"])
def test_what_the_host_does_not_let_it_reach_a_nic_does_not_reach(capfd, served, client, memory, how):
    # capfd first, and so until the end: the server goes on to say what it refuses.
    file, view = memory
    client.enable(2 if how == "no bus master" else 6)
    if how != "not mapped":
        client.map(None if how == "nobody's memory" else file, 0, IOVA, 2 * PAGE, 1 if how == "read only" else 3)
    if how == "unmapped":
        assert client.unmap(IOVA, 2 * PAGE) == 2 * PAGE
    set_up_context(client, IOVA)
    post_nop(client, view)
    said = []

    def refused():
        said.append(capfd.readouterr().err)
        return "is outside granted memory" in "".join(said)

    wait_for(refused)
    assert not view[PAGE : 2 * PAGE].strip(b"\0")


@pytest.mark.parametrize("how", ["config", "message", "gone"])
def test_a_reset_function_forgets_and_comes_back_as_new(served, memory, how):
    file, view = memory
    first = client = Client(served[1])
    client.enable()
    client.map(file, 0, IOVA, 2 * PAGE)
    set_up_context(client, IOVA)
    if how == "config":
        client.write(CONFIG, 0x78, struct.pack("<H", 0x8000))
    elif how == "message":
        client.reset()
    else:
        client.close()
        client = Client(served[1])
    assert client.read(CONFIG, 4, 2) == bytes(2)
    client.enable()
    assert client.register(BLOCKS["contexts"].address("control")) == 0
    if how == "gone":
        client.map(file, 0, IOVA, 2 * PAGE)  # the maps of the one before are gone
    view[: 2 * PAGE] = bytes(2 * PAGE)
    set_up_context(client, IOVA)
    post_nop(client, view)
    wait_for(lambda: view[PAGE : 2 * PAGE].strip(b"\0"))
    first.close()
    client.close()


def test_maps_are_those_of_type_1(client, memory):
    file, _ = memory
    client.map(file, 0, IOVA, 2 * PAGE)
    client.map(file, 0, IOVA + 4 * PAGE, PAGE)
    for iova, size in ((IOVA, PAGE), (IOVA + PAGE, 2 * PAGE), (IOVA - PAGE, 2 * PAGE), (IOVA - PAGE, 8 * PAGE)):
        with refused(errno.EEXIST):
            client.map(file, 0, iova, size)
    for iova, size in ((IOVA, PAGE), (IOVA + PAGE, PAGE), (IOVA + PAGE, 4 * PAGE), (IOVA - PAGE, 2 * PAGE)):
        with refused(errno.EINVAL):
            client.unmap(iova, size)
    assert client.unmap(IOVA + 2 * PAGE, PAGE) == 0
    assert client.unmap(IOVA - PAGE, 16 * PAGE) == 3 * PAGE
    client.map(file, 0, IOVA, PAGE)
    assert client.unmap(0, 0, UnmapFlags.ALL) == PAGE
    assert client.unmap(IOVA, PAGE) == 0


@pytest.mark.parametrize(
    ("iova", "offset", "size"),
    [
        (IOVA, 0, 0), (IOVA + 1, 0, PAGE), (IOVA, 1, PAGE), (IOVA, 0, 100), (IOVA, 16 * PAGE, PAGE),
        (IOVA, 0, 17 * PAGE), ((1 << 64) - PAGE, 0, 2 * PAGE), (IOVA, (1 << 64) - PAGE, 2 * PAGE),
    ],
)  # fmt: skip
def test_maps_lie_in_their_file_and_are_pages(client, memory, iova, offset, size):
    with refused(errno.EINVAL):
        client.map(memory[0], offset, iova, size)


def test_memory_is_what_cannot_vanish(client, tmp_path):
    shrinking = os.memfd_create("shrinking")
    os.ftruncate(shrinking, PAGE)
    (tmp_path / "file").write_bytes(bytes(PAGE))
    plain = os.open(tmp_path / "file", os.O_RDWR)
    reader, writer = os.pipe()
    event = os.eventfd(0)
    for descriptor in (shrinking, plain, reader, writer, event, client.fileno()):
        with refused(errno.EINVAL):
            client.map(descriptor, 0, IOVA, PAGE)
    assert client.unmap(IOVA, PAGE) == 0
    for descriptor in (shrinking, plain, reader, writer, event):
        os.close(descriptor)


def test_vectors_tell_eventfds_and_nothing_else(client, memory):
    events = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(4)]
    client.set_irqs(0, 4, events)
    client.set_irqs(1, 2, [], NONE | TRIGGER)
    client.set_irqs(1, 1)
    client.set_irqs(0, 4, [], NONE | TRIGGER)
    assert [os.eventfd_read(event) for event in events if select.select([event], [], [], 0)[0]] == [1, 1, 2, 1]
    full = events[3]
    os.eventfd_write(full, (1 << 64) - 2)
    client.set_irqs(3, 1, [], NONE | TRIGGER)  # does not wait for somebody to read
    client.set_irqs(0, 0, [], NONE | TRIGGER)
    client.set_irqs(0, 3, [], NONE | TRIGGER)
    assert not select.select(events[:3], [], [], 0)[0]
    with refused(errno.EINVAL):
        client.set_irqs(0, 1, [memory[0]])
    for start, count, flags, number in (
        (0, 5, EVENTFD | TRIGGER, errno.EINVAL),
        ((1 << 32) - 1, 1, EVENTFD | TRIGGER, errno.EINVAL),
        (0, 2, EVENTFD | TRIGGER, errno.EINVAL),
        (0, 1, BOOL | TRIGGER, errno.EINVAL),
        (0, 1, NONE | EVENTFD | TRIGGER, errno.EINVAL),
        (0, 1, NONE | IrqSetFlags.ACTION_MASK, errno.ENOTTY),
    ):
        with refused(number):
            client.set_irqs(start, count, events[:1], flags)
    for event in events:
        os.close(event)


def test_a_client_that_has_gone_keeps_no_other_out(served, monkeypatch):
    """Not even if it goes, and the other comes, behind the last look at what it says."""
    path = served[1]
    client = Client(path)
    serve, wanted = vfio_user._Connection.serve, []

    def serve_and_change(connection):
        served = serve(connection)
        if wanted:
            client.close()
            wanted.pop().connect(str(path))
        return served

    with socket.socket(socket.AF_UNIX) as other:
        other.settimeout(20)
        monkeypatch.setattr(vfio_user._Connection, "serve", serve_and_change)
        wanted.append(other)
        client.send(4, struct.pack("<IIII", 16, 0, 0, 0))
        wait_for(lambda: not wanted)
        other.sendall(HEADER.pack(1, VERSION, HEADER.size + 5, 0, 0) + struct.pack("<HH", 0, 0) + b"\0")
        assert HEADER.unpack(other.recv(HEADER.size))[3] & 0x2F == 1


# Hostile hosts


def is_well(path):
    """Whether a new client is served as the first one was."""
    with Client(path) as client:
        client.enable()
        return client.register(0) == 0x414D0001


def listen_to_the_end(client):
    while True:
        with contextlib.suppress(RefusedError):
            client.answer()


@pytest.mark.parametrize(
    "data",
    [
        HEADER.pack(1, 4, 16, 0, 0),
        HEADER.pack(1, 1, 3, 0, 0),
        HEADER.pack(1, 1, 0xFFFF_FFFF, 0, 0),
        HEADER.pack(1, 1, 20, 0, 0) + struct.pack("<HH", 1, 0),
        HEADER.pack(1, 1, 17, 0, 0) + b"x",
        HEADER.pack(1, 1, 16, 1, 0),
    ],
    ids=["no version", "too short", "too long", "another version", "half a version", "a reply"],
)
def test_what_begins_wrong_ends_the_connection_alone(served, data):
    client = Client(served[1], greet=False)
    client._number = 1
    client.send_raw(data)
    with pytest.raises((EOFError, ConnectionError)):
        listen_to_the_end(client)
    client.close()
    assert is_well(served[1])


def test_a_server_without_free_descriptors_turns_a_client_away_and_goes_on(served, monkeypatch):
    server, path = served
    port = server._ports[0]
    real = port._listener

    class Full:
        """A listening socket whose process has no descriptor but the spare one."""

        def __getattr__(self, name):
            return getattr(real, name)

        def accept(self):
            try:
                os.fstat(port._spare)
            except OSError:
                return real.accept()
            raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(port, "_listener", Full())
    client = Client(path, greet=False)
    with pytest.raises((EOFError, ConnectionError)):
        client.answer()
    client.close()
    monkeypatch.undo()
    assert port.turned_away == 1
    assert is_well(path)


class Fragile(ModelDevice):
    """A NIC that fails, as the RTL does when it breaks a rule of its buses, until it is reset."""

    broken = False

    def run_until(self, cycle):
        if self.broken:
            raise DeviceError("AR crosses 4 KiB")
        super().run_until(cycle)

    def function_reset(self):
        self.broken = False
        super().function_reset()


@pytest.mark.parametrize("used", [True, False], ids=["with a client", "without"])
def test_b7_a_nic_that_fails_ends_its_own_connection_alone(tmp_path, monkeypatch, used, memory):
    monkeypatch.setitem(DEVICES, "fragile", Fragile)
    file, view = memory
    with serving(tmp_path, ["model", "fragile"]) as (server, (path, other)), Client(path) as neighbour:
        guest = Client(other)
        guest.enable()
        if not used:
            guest.close()
            wait_for(lambda: server._ports[1].connection is None)
        server.functions[1].device.broken = True
        neighbour.enable()
        wait_for(lambda: server._ports[1].failed == 1)
        if used:
            with pytest.raises((EOFError, ConnectionError)):
                guest.register(0)
            guest.close()
        neighbour.map(file, 0, IOVA, 2 * PAGE)
        set_up_context(neighbour, IOVA)
        post_nop(neighbour, view)
        wait_for(lambda: COMPLETION.unpack(view[PAGE : PAGE + COMPLETION.size])["context"] == 0x1234)
        assert is_well(other)
        assert server._ports[0].failed == 0


@pytest.mark.parametrize("kind", ["model", "rtl"])
def test_b7_a_guest_may_write_any_address_of_a_ring(tmp_path, memory, kind):
    """Each base of the row, which ends in 0xFE0; one that the NIC does not use stays as it is written."""
    file, view = memory
    with serving(tmp_path, [kind]) as (server, (path,)), Client(path) as client:
        client.enable()
        client.map(file, 0, IOVA, 4 * PAGE)
        for name in ("receive", "event", "unexpected", "transmit", "completion"):
            client.set_register(BLOCKS["contexts"].address(f"{name}_base_low"), (IOVA + 0xFE0) & 0xFFFF_FFFF)
            client.set_register(BLOCKS["contexts"].address(f"{name}_base_high"), IOVA >> 32)
        for name in ("transmit", "completion", "event", "receive"):
            client.set_register(BLOCKS["contexts"].address(f"{name}_size"), 4)
        # These rings lie elsewhere: the refused receive writes an event, which must not replace a descriptor.
        for name, page in (("event", 0x1000), ("completion", 0x2000)):
            client.set_register(BLOCKS["contexts"].address(f"{name}_base_low"), (IOVA + page + 0xFE0) & 0xFFFF_FFFF)
        client.set_register(BLOCKS["contexts"].address("control"), int(ContextControl.ENABLE))
        nop = TX_DESCRIPTOR.pack(opcode=DescriptorOpcode.NOP, flags=DescriptorFlags.COMPLETION, context=0x1234)
        view[0xFC0 : 0xFC0 + 5 * TX_DESCRIPTOR.size] = 5 * nop
        client.set_register(DOORBELL_PAGE + 0x14, 1)
        client.set_register(DOORBELL_PAGE, 5)
        size = COMPLETION.size
        entries = [slice(at, at + size) for at in range(0x2FC0, 0x2FC0 + 5 * size, size)]
        wait_for(lambda: all(COMPLETION.unpack(view[entry])["context"] == 0x1234 for entry in entries))
        assert server._ports[0].failed == 0
    assert not view[:0xFC0].strip(b"\0")


def test_a_function_has_one_host(served, client):
    second = Client(served[1], greet=False)
    with pytest.raises((EOFError, ConnectionError)):
        second.answer()
    second.close()
    client.enable()
    assert client.register(0) == 0x414D0001


@pytest.mark.parametrize("command", [0, 6, 11, 12, 14, 15, 0xFFFF])
def test_what_is_not_offered_is_refused(client, command):
    with refused(errno.ENOTSUP):
        client.ask(command, bytes(64))
    assert client.read(CONFIG, 0, 2) == struct.pack("<H", 0x1234)


def test_a_message_may_come_in_pieces_with_its_descriptor_in_any(served, client, memory):
    body = struct.pack("<IIQQQ", 32, 3, 0, IOVA, PAGE)
    message = HEADER.pack(9, 2, 16 + len(body), 0, 0) + body
    client._number = 9
    for at in range(len(message)):
        client.send_raw(message[at : at + 1], [memory[0]] if at == 20 else ())
    assert client.answer() == b""
    assert len(served[0].functions[0].memory) == 1


def test_posted_writes_get_no_answer(client):
    client.enable()
    mac = BLOCKS["device"].address("mac_low")
    for value in range(100):
        client.send(10, struct.pack("<QIII", mac, 0, 4, value), flags=0x10)
    assert client.register(mac) == 99


def test_a_client_that_does_not_listen_is_given_up(served):
    client = Client(served[1])
    asked = (HEADER.pack(1, 9, 32, 0, 0) + struct.pack("<QII", 0, 7, 4096)) * 200 * 64
    with pytest.raises(ConnectionError):
        client.send_raw(asked)
    client.close()
    assert is_well(served[1])


def descriptors_open():
    return len(os.listdir("/proc/self/fd"))


MESSAGES = st.one_of(
    st.builds(
        lambda flags, offset, iova, size: (2, struct.pack("<IIQQQ", 32, flags, offset, iova, size)),
        st.integers(0, 4), *[st.integers(0, 20).map(lambda n: n * PAGE) | st.integers(0, (1 << 64) - 1)] * 3,
    ),
    st.builds(
        lambda flags, iova, size: (3, struct.pack("<IIQQ", 24, flags, iova, size)),
        st.integers(0, 3), *[st.integers(0, 20).map(lambda n: n * PAGE) | st.integers(0, (1 << 64) - 1)] * 2,
    ),
    st.builds(
        lambda *fields: (8, struct.pack("<IIIII", *fields)),
        st.integers(0, 64), st.integers(0, 255), st.integers(0, 5), st.integers(0, 6), st.integers(0, 6),
    ),
    st.builds(
        lambda command, region, offset, count, data: (command, struct.pack("<QII", offset, region, count) + data),
        st.sampled_from([9, 10]), st.integers(0, 10),
        st.integers(0, 0x4_1000) | st.integers(0, 0x100) | st.integers(0, (1 << 64) - 1),
        st.integers(0, 64) | st.integers(0, (1 << 32) - 1), st.binary(max_size=64),
    ),
    st.tuples(st.integers(0, 20), st.binary(max_size=64)),
)  # fmt: skip
"""Commands and bodies: all that exist, with fields that are nearly right."""


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("fuzz")) as (server, sockets):
        yield server, sockets[0]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(MESSAGES, st.sampled_from(["memory", "file", "event", "none", "none", "two"])), max_size=12),
    st.binary(max_size=40),
    st.booleans(),
)
def test_no_messages_harm_the_server_whatever_they_say(fuzzed, messages, rest, quits):
    """Before each, everything is as it was when the first client came: nothing is left behind either."""
    gc.collect()
    before = descriptors_open()
    files = {"memory": [sealed_memory(8 * PAGE)], "file": [os.open("/dev/null", os.O_RDWR)], "none": []}
    files |= {"event": [os.eventfd(0)]}
    files["two"] = files["memory"] + files["event"]
    client = Client(fuzzed[1])
    with contextlib.suppress(EOFError, ConnectionError):
        client.enable()
        for (command, body), which in messages:
            with contextlib.suppress(RefusedError):
                client.ask(command, body, files[which])
        if not quits:
            client.send_raw(rest)
    client.close()
    for descriptor in files["two"] + files["file"]:
        os.close(descriptor)
    assert is_well(fuzzed[1])
    function = fuzzed[0].functions[0]
    wait_for(lambda: len(function.memory) == 0 and not function._eventfds)
    wait_for(lambda: descriptors_open() <= before)
