"""A process with a fabric that forks: the child leaves all of it alone, however it ends.

Covers ``core/forking.py``.
"""

import contextlib
import os
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from amoeba import FabricError, Rendezvous, open_cluster
from amoeba_model.udp_network import UdpNetwork

from tests.support.scripted import ScriptedDevice, frame_to, mac_of

PROGRAM = Path(__file__).parents[2] / "support" / "forking_program.py"
LONG = 300
"""Seconds in which anything ends."""


@pytest.mark.parametrize("progress", ["FI_PROGRESS_MANUAL", "FI_PROGRESS_AUTO"])
@pytest.mark.parametrize("kinds", ["model,model", "rtl,rtl", "model,rtl"])
def test_the_parent_goes_on_however_its_children_end(kinds, progress):
    """Each of four children ends in its way while an operation of the parent's is in flight; eight are reported."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", PROGRAM, kinds, progress], capture_output=True, text=True, timeout=LONG
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "8 8\n", "")


def in_child(function):
    """Exit status of a child that calls this: 0 if it returns."""
    child = os.fork()
    if not child:
        status = 1
        try:
            function()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_the_error_names_the_process_that_has_the_object():
    with open_cluster(["model"]) as fabric:
        queue, parent = fabric.domain(0).cq_open(), os.getpid()

        def read():
            with pytest.raises(FabricError, match=f"FI_EBADF: this CompletionQueue belongs to process {parent}, "):
                queue.read()
            assert queue.closed
            assert fabric.closed

        assert in_child(read) == 0
        assert queue.read() == []
        assert not fabric.closed


def test_a_child_takes_no_frame_of_its_parent_and_lets_go_of_the_port():
    """The child sees no frame; afterwards the port is free although the child goes on."""
    with UdpNetwork() as network, contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as plain:
        plain.bind(("127.0.0.1", 0))
        network.attach(ScriptedDevice(), mac_of(0))
        network.connect(mac_of(1), *plain.getsockname())
        reading, writing = os.pipe()
        hearing, telling = os.pipe()
        child = os.fork()
        if not child:
            os.close(writing)
            os.write(telling, b".")
            os.read(reading, 1)  # until the parent has gone on
            os._exit(0)
        os.close(reading)
        assert os.read(hearing, 1)  # it has let go of what it has copies of
        address = network.address
        network.devices[0].send(frame_to(1))
        network.step()
        plain.settimeout(10)
        assert plain.recv(2000)
        network.close()
        with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as again:
            again.bind(address)
        for end in (writing, hearing, telling):
            os.close(end)
        assert os.waitpid(child, 0)[1] == 0


def test_who_waits_for_a_process_is_notified_of_its_end_although_a_child_of_it_lives():
    addresses = []
    reading, writing = os.pipe()
    first = os.fork()
    if not first:
        with Rendezvous.listen("127.0.0.1", 0, 2, ready=lambda *at: os.write(writing, f"{at[1]}\n".encode())):
            if not os.fork():
                select.select([], [], [], 3)
            os._exit(0)
    addresses = os.read(reading, 100).split()
    with Rendezvous.connect("127.0.0.1", int(addresses[0])) as rendezvous:
        assert os.waitpid(first, 0)[1] == 0
        select.select([rendezvous._connections[0].socket], [], [], 2)
        with pytest.raises(FabricError, match="FI_ECONNABORTED"):
            rendezvous.check()
    os.close(reading)
    os.close(writing)
