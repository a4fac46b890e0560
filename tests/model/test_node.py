"""Settings of memory nodes: the map of the memory, and settings with which no peer could reach it."""

import re
from dataclasses import replace

import pytest
from amoeba_model.node import NodeSettings

NODE = NodeSettings(bytes.fromhex("020000000002"), 0x0A00_0002, 512 << 10, 0x1234)


def test_answers_lie_behind_the_region():
    own = NODE.parameters
    assert NODE.answers == NODE.region
    assert NODE.memory == NODE.region + own.target_pdcs * own.window * own.payload


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"mac": bytes(6)}, "the Ethernet address of one station, 6 bytes, got 00:00:00:00:00:00"),
        ({"mac": b"\xff" * 6}, "got ff:ff:ff:ff:ff:ff"),
        ({"mac": bytes.fromhex("0200")}, "got 02:00"),
        ({"ip": 0}, "the IPv4 address of one host, got 0.0.0.0"),
        ({"ip": 0x7F00_0001}, "got 127.0.0.1"),
        ({"ip": 0xE000_0001}, "got 224.0.0.1"),
        ({"ip": 0xFFFF_FFFF}, "got 255.255.255.255"),
        ({"ip": 1 << 32}, "got 0x100000000"),
        ({"region": 0}, "a region of 1 to 262144 times 4096 bytes, got 0"),
        ({"region": 4097}, "got 4097"),
        ({"region": 1 << 31}, "got 2147483648"),
        ({"key": -1}, "a key of 0 to 0xfffffffffffffffe, got -0x1"),
        ({"key": (1 << 64) - 1}, "got 0xffffffffffffffff"),
        ({"build": "tiny"}, "a build without initiator (node), got tiny"),
        ({"build": "big"}, "unknown build 'big'"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused(wrong, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        replace(NODE, **wrong)
