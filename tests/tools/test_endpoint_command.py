"""``amoeba endpoint``: a process that serves NICs until it is told to stop.

Covers ``amoeba/devices/endpoint.py`` and ``cli/endpoint.py``.
"""

import contextlib
import signal
import subprocess
import sys

import pytest
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import bar_blocks
from amoeba_tools.cli import app
from typer.testing import CliRunner

from tests.support.vfio_client import Client

DEVICE = bar_blocks(NicParameters())[0]


@contextlib.contextmanager
def endpoint(*arguments):
    command = [sys.executable, "-m", "amoeba_tools", "endpoint", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_endpoint_command_says_where_it_serves_and_stops_when_it_is_told_to(tmp_path, number):
    folder = tmp_path / "sockets"
    with endpoint("--socket", str(folder), "--count", "2") as process:
        paths = [process.stdout.readline().strip() for _ in range(2)]
        assert paths == [f"serving {folder}/nic{index}.sock" for index in range(2)]
        with Client(folder / "nic1.sock") as client:
            client.enable()
            for _ in range(2):
                assert client.register(DEVICE.address("mac_low")) == 2
                assert client.register(DEVICE.address("ip")) == 0x0A000002
                client.set_register(DEVICE.address("mac_low"), 77)
                client.reset()  # its address is as it was
                client.enable()
        process.send_signal(number)
        assert process.wait(20) == 0
    assert list(folder.iterdir()) == []


def test_the_socket_of_one_that_was_killed_is_taken_over(tmp_path):
    for _ in range(2):
        with endpoint("--socket", str(tmp_path)) as process:
            process.stdout.readline()
            with Client(tmp_path / "nic0.sock") as client:
                client.enable()
                assert client.register(0) == 0x414D0001


def test_a_file_that_is_no_socket_is_left_alone(tmp_path):
    (tmp_path / "nic0.sock").write_text("mine")
    result = CliRunner().invoke(app, ["endpoint", "--socket", str(tmp_path), "--count", "1"])
    assert result.exit_code == 1
    assert (tmp_path / "nic0.sock").read_text() == "mine"
