"""The driver's log: nothing unless asked, and then peers that come, that go, and that are given up."""

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import amoeba
import numpy as np
import pytest
from amoeba import MrAccess
from amoeba.core.log import PARTS, configure
from amoeba.nic.nic import Retransmission

PROGRAM = """
import amoeba, numpy as np
with amoeba.open_cluster(["model"]) as fabric:
    domain = fabric.domain(0)
    with domain.mr_reg(np.zeros(8), amoeba.MrAccess.FI_REMOTE_READ) as region:
        print(region.key)
    domain.endpoint(cq=domain.cq_open(), av=domain.av_open())
"""


def run(setting=None):
    """Standard error and the printed key of the program with this AMOEBA_LOG."""
    environment = {name: value for name, value in os.environ.items() if name != "AMOEBA_LOG"}
    environment |= {} if setting is None else {"AMOEBA_LOG": setting}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stderr, int(done.stdout)


@pytest.fixture
def root():
    """The driver's logger, as it was before the test."""
    root = logging.getLogger("amoeba")
    handlers, propagate, level = list(root.handlers), root.propagate, root.level
    yield root
    root.handlers[:], root.propagate = handlers, propagate
    root.setLevel(level)


def test_nothing_is_told_unless_somebody_asks():
    assert run()[0] == run("")[0] == ""


def test_the_environment_asks_for_everything_or_for_a_part():
    everything, key = run("debug")
    for what in ("opened model", "context 0: job", "64 bytes at", "withdrawn", "context 0: stopped", "closing model"):
        assert what in everything, everything
    assert str(key) not in everything
    assert f"{key:x}" not in everything.lower()
    part, _ = run("warning,nic.keys=debug")
    assert "64 bytes at" in part
    assert "opened model" not in part
    assert run("amoeba.nic.keys=debug")[0].count("\n") == part.count("\n")


def test_a_part_that_tells_nothing_is_named():
    told, _ = run("nci=debug,nic.keys=debug")
    assert "expected a part of nic, nic.contexts" in told
    assert "got 'nci'" in told
    assert "64 bytes at" in told


def test_the_parts_are_those_that_there_are():
    sources = Path(amoeba.__file__).parent.rglob("*.py")
    found = [part for path in sources for part in re.findall(r'= logger\("([\w.]+)"\)', path.read_text())]
    assert set(found) == set(PARTS)
    assert len(PARTS) == len(set(PARTS))


@pytest.mark.parametrize("setting", ["loud", "nic=loud", "=", "debug,,info"])
def test_a_setting_that_is_not_understood_is_told_and_stops_nothing(setting):
    told, _ = run(setting)
    assert told.startswith("AMOEBA_LOG: expected LEVEL or PART=LEVEL")
    assert told.count("\n") == 1


def test_a_program_listens_as_to_any_library(root, caplog):
    caplog.set_level(logging.DEBUG, "amoeba")
    with amoeba.open_cluster(["model", "model"], progress=amoeba.Progress.FI_PROGRESS_AUTO):
        pass
    told = [record.getMessage() for record in caplog.records]
    assert sum(text.startswith("opened model") for text in told) == 2
    assert "automatic progress has begun, for 2 NICs" in told
    assert {record.name for record in caplog.records} >= {"amoeba.nic", "amoeba.progress"}


def test_a_peer_that_is_given_up_is_told_with_what_the_nic_has_counted(root, caplog):
    caplog.set_level(logging.DEBUG, "amoeba")
    with amoeba.open_cluster(["model", "model"], retransmission=Retransmission(1000, 1)) as fabric:
        owner, user = fabric.domain(0), fabric.domain(1)
        region = owner.mr_reg(np.zeros(8), MrAccess.FI_REMOTE_WRITE)
        server = owner.endpoint(cq=owner.cq_open(), av=owner.av_open())
        queue, peers = user.cq_open(), user.av_open()
        client = user.endpoint(cq=queue, av=peers)
        peer = peers.insert(server.getname())
        fabric.network.cut(fabric.devices[0])
        client.write(b"lost", peer, region.address, region.key)
        with pytest.raises(amoeba.ErrorAvailableError):
            queue.sread()
        queue.readerr()
    told = "\n".join(record.getMessage() for record in caplog.records)
    assert "the NIC has given the peer up" in told
    assert "'TIMEOUTS': 2" in told
    assert "'FAILED_PDCS': 1" in told


def test_to_configure_twice_does_not_tell_twice(root, capsys):
    configure("info")
    configure(None)
    logging.getLogger("amoeba.nic").info("once")
    assert capsys.readouterr().err.count("once") == 1
