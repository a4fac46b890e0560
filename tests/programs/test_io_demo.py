"""UCX's io_demo, where it is: clients that read and write through a server, every byte checked, over libucp.so.0.

It is in no archive of packages. ``IO_DEMO`` says where the program is, of ``test/apps/iodemo`` of UCX's sources, by
``g++ -std=c++11 *.cc -o io_demo -lucp -lucs -lpthread``.
"""

import contextlib
import os
import subprocess
import time

import pytest

from tests.support.programs.running import run

SIZES = ["-d", "512:65536"]


@pytest.fixture
def io_demo():
    program = os.environ.get("IO_DEMO")
    if program is None:
        pytest.skip("no io_demo: IO_DEMO says where the program is")
    return program


@pytest.fixture
def serve(io_demo, libucp_environment, tmp_path):
    """Start a server, which listens when this returns."""
    with contextlib.ExitStack() as stack:

        def start(*options):
            said = tmp_path / "server"
            output = stack.enter_context(said.open("w"))
            server = subprocess.Popen(
                [io_demo, *options], env=libucp_environment, stdout=output, stderr=subprocess.STDOUT
            )
            stack.callback(server.wait)
            stack.callback(server.kill)
            deadline = time.monotonic() + 60
            while "started listener" not in said.read_text() and time.monotonic() < deadline:
                assert server.poll() is None, said.read_text()
                time.sleep(0.1)

        yield start


@pytest.mark.long
@pytest.mark.parametrize("mode", [[], ["-A"]], ids=["messages", "active messages"])
def test_io_demo(io_demo, serve, libucp_environment, mode):
    serve("-q", *mode, *SIZES)
    client = run([io_demo, "127.0.0.1", "-q", *mode, *SIZES, "-i", "30", "-o", "read,write"], libucp_environment, 100)
    assert client.status == 0, client
    assert "Client exit with status 'OK'" in client.output
