"""``amoeba node``: boot lists of memory nodes, recorded from the driver and played on NICs.

Covers ``cli/node.py``, ``node_boot.py``, ``amoeba/nic/boot.py`` and ``amoeba/devices/recording.py``.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from amoeba import Datatype, FabricError, Op
from amoeba.core.buffers import address_of, allocate
from amoeba.devices.recording import RecordingDevice
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.nic.boot import boot_list
from amoeba.nic.nic import Nic
from amoeba_model.boot_list import BootEntry, boot_entries
from amoeba_model.network import Network
from amoeba_model.nic.device import ModelDevice
from amoeba_model.node import NodeSettings
from amoeba_model.parameters import BUILDS
from amoeba_model.registers import KeyFlags
from amoeba_tools.cli import app
from amoeba_tools.node_boot import node_facts, read_node, record_boot_list
from typer.testing import CliRunner

from tests.support.commands import usage_error

STORED = Path(__file__).parents[2] / "hw" / "boards" / "nexys_video" / "boot.json"
SETTINGS = NodeSettings(bytes.fromhex("020000000002"), 0x0A00_0002, 8192, 0x1234)
PLACE = ("--mac", "02:00:00:00:00:02", "--ip", "10.0.0.2")


def run(*arguments):
    return CliRunner().invoke(app, ["node", *map(str, arguments)], env={"COLUMNS": "80"})


def play(entries, device):
    """Put a NIC in service as the hardware does."""
    for entry in entries:
        if entry.waits:
            assert device.read(entry.offset) == entry.value, f"waits at {entry.offset:#x} for ever"
        else:
            device.write(entry.offset, entry.value)


def test_a_list_that_is_played_lets_peers_use_the_region_and_nothing_else():
    entries, name = record_boot_list(SETTINGS)
    memory = allocate(SETTINGS.memory)
    words = np.frombuffer(memory, np.uint64)
    node, host = ModelDevice(SETTINGS.parameters), ModelDevice(BUILDS["tiny"])
    with node, Fabric([host], "model") as fabric:
        network = Network()
        mac = bytes.fromhex("020000000001")
        network.attach(host, mac)
        network.attach(node, SETTINGS.mac)
        fabric.nics[0].set_address(mac, 0x0A00_0001)
        node.grant(0, SETTINGS.memory, host_address=address_of(memory))
        play(entries, node)
        domain = fabric.domain(0)
        with domain.cq_open() as queue, domain.av_open() as peers, domain.endpoint(cq=queue, av=peers) as endpoint:
            peer = peers.insert(name)
            endpoint.write(np.arange(1024, dtype=np.uint64), peer, 0, SETTINGS.key)
            queue.sread(1)
            assert words[:1024].tolist() == list(range(1024))
            one, old = np.ones(1, np.uint64), np.zeros(1, np.uint64)
            endpoint.fetch_atomic(one, old, peer, 8176, SETTINGS.key, Op.FI_SUM, Datatype.FI_UINT64)
            queue.sread(1)
            assert (old[0], words[1022]) == (1022, 1023)
            for address, key in ((8192, SETTINGS.key), (0, SETTINGS.key + 1)):
                endpoint.write(bytes(8), peer, address, key)
                with pytest.raises(FabricError):
                    queue.sread(1)
                queue.readerr()
        domain.close()
        assert node.faults() == []


def test_the_context_opens_last_and_nothing_of_the_driver_s_memory_is_in_the_list():
    entries, _ = record_boot_list(SETTINGS)
    writes = [entry for entry in entries if not entry.waits]
    enabling = [index for index, entry in enumerate(writes) if entry.offset == 0x2040 and entry.value & 1]
    assert enabling == [len(writes) - 1]
    assert max(entry.value for entry in writes if entry.offset >= 0x3C) < 1 << 16
    assert entries[0] == BootEntry(0x10, 9, waits=True)
    assert record_boot_list(SETTINGS)[0] == entries


def test_memory_without_a_place_in_the_node_is_refused():
    recorded = RecordingDevice(SETTINGS.parameters, SETTINGS.mac)
    memory = allocate(4096)
    with recorded:
        nic = Nic(recorded)
        nic.dma.grant(address_of(memory), 4096, writable=True, whose=None)
        recorded.writes += [(0x48, 0x1000), (0x4C, 0)]
        nic.keys.store(5, address_of(memory), 4096, 0, KeyFlags.REMOTE_READ)
        with pytest.raises(
            ValueError, match=f"a place in the node's memory for {address_of(memory):#x}, written at 0x3018"
        ):
            boot_list(nic.registers, recorded, 0, SETTINGS)


def test_a_nic_of_another_build_waits_before_the_first_write():
    entries, _ = record_boot_list(SETTINGS)
    first = next(index for index, entry in enumerate(entries) if not entry.waits)
    with ModelDevice(BUILDS["tiny"]) as other:
        assert any(other.read(entry.offset) != entry.value for entry in entries[:first])


def test_the_stored_list_of_the_board_is_that_of_this_driver():
    settings, words = read_node(STORED)
    assert json.loads(STORED.read_text()) == node_facts(settings)
    assert boot_entries(words) == record_boot_list(settings)[0]


def test_a_file_has_what_is_printed(tmp_path):
    path = tmp_path / "node.json"
    shown = run("config", *PLACE, "--region", "8K", "--key", "0x1234", "-o", path)
    assert shown.exit_code == 0, shown.output
    assert read_node(path)[0] == SETTINGS
    told = run("config", *PLACE, "--region", "8K", "--key", "0x1234", "--json")
    assert told.stdout == path.read_text()
    listed = run("config", *PLACE, "--region", "8K", "--key", "0x1234").stdout
    assert re.search(r"│ write │ 0x02040 │ contexts.control +│ +0x5 │", listed)


def test_a_key_that_nobody_chose_is_another_one_each_time():
    keys = {json.loads(run("config", *PLACE, "--region", "4K", "--json").stdout)["key"] for _ in range(3)}
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--mac", "02:00", *PLACE[2:]), "'--mac': expected an address such as 02:00:00:00:00:02, got '02:00'"),
        ((*PLACE[:2], "--ip", "10.0.0"), "'--ip': expected an address such as 10.0.0.2, got '10.0.0'"),
        ((*PLACE[:2], "--ip", "224.0.0.1"), "expected the IPv4 address of one host, got 224.0.0.1"),
        ((*PLACE, "--region", "many"), "expected bytes, such as 524288 or 512K, got 'many'"),
        ((*PLACE, "--region", "5000"), "times 4096 bytes, got 5000"),
        ((*PLACE, "--key", "mine"), "expected a number such as 0x1234, got 'mine'"),
        ((*PLACE, "--build", "tiny"), "expected a build without initiator (node), got tiny"),
        ((*PLACE, "--build", "huge"), "unknown build 'huge'; expected full, tiny or node"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_wrong_options_are_usage_errors(options, said):
    assert said in usage_error(run("config", *options))


@pytest.mark.parametrize("damage", ["bit", "cut", "text", "other"])
def test_a_damaged_file_is_refused(damage, tmp_path):
    facts = node_facts(SETTINGS)
    if damage == "bit":
        facts["words"][20] = f"{int(facts['words'][20], 16) ^ 4:#x}"
    elif damage == "cut":
        del facts["words"][-2:]
    elif damage == "other":
        del facts["mac"]
    path = tmp_path / "node.json"
    path.write_text("{" if damage == "text" else json.dumps(facts))
    with pytest.raises(OSError, match="expected a node's configuration, got ") as caught:
        read_node(path)
    assert caught.value.filename == str(path)
