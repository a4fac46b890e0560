"""UCX's two examples, option for option, in two processes."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.driver.openucx.ucxx.ucx_parties import PATIENCE

_ROOT = Path(__file__).resolve().parents[4]
_started: "list[subprocess.Popen[str]]" = []
"""Examples of the test that runs."""


def start(name: str, *options: str, **variables: str) -> "subprocess.Popen[str]":
    """An example in a process of its own."""
    folders = os.pathsep.join(str(_ROOT / each) for each in ("model", "hw", "sim", "driver"))
    process = subprocess.Popen(
        [sys.executable, "-u", str(_ROOT / "examples" / name), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": folders, **variables},
    )
    _started.append(process)
    return process


def over(process: "subprocess.Popen[str]") -> tuple[str, int]:
    """(output, return code) of one that ends by itself."""
    try:
        out, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        out = process.communicate()[0] + "\nit has not ended"
    return out, process.returncode


def line_with(process: "subprocess.Popen[str]", words: str) -> str:
    """The next line that has these words."""
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return line.strip()
    raise AssertionError(f"it has ended without {words!r}")


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return str(listening.getsockname()[1])


def hello(*options: str, **variables: str) -> tuple[tuple[str, int], tuple[str, int]]:
    """The outputs of a server and a client of hello world."""
    port = free_port()
    server = start("ucp_hello_world.py", "-p", port, *options, **variables)
    line_with(server, "waiting for a client")
    client = start("ucp_hello_world.py", "-n", "127.0.0.1", "-p", port, *options, **variables)
    return over(server), over(client)


@pytest.fixture(autouse=True)
def nothing_is_left():
    """A test that fails leaves no process behind."""
    yield
    while _started:
        process = _started.pop()
        process.kill()
        process.wait()


@pytest.mark.parametrize("options", [(), ("-w", "-s", "100"), ("-f", "-s", "5000"), ("-b", "-c", "-m", "host")])
def test_hello_world_says_hello(options):
    (server, server_code), (client, client_code) = hello(*options)
    assert server_code == client_code == 0, server + client
    assert "flush_ep completed with status 0 (Success)" in server
    length = int(options[2]) if "-s" in options else 16
    assert ("UCP hello world" * (length // 15 + 1))[:length] in client.splitlines()
    assert ("UCX_RNDV_THRESH=" in client) is ("-c" in options)


@pytest.mark.parametrize("failure", ["send", "recv", "keepalive"])
def test_hello_world_handles_the_failure_that_was_asked_for(failure):
    server, client = hello("-e", failure, UCX_KEEPALIVE_INTERVAL="1s")
    killed, survivor = (server, client) if failure == "send" else (client, server)
    assert killed[1] == -9
    assert "emulating a failure" in killed[0]
    assert survivor[1] == 0, survivor[0]
    assert "failure handler called with status" in survivor[0]
    assert "the failure was handled" in survivor[0]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-c", "tag", "-i", "3", "-s", "5000"),
        ("-c", "am", "-i", "3"),
        ("-c", "am", "-s", "12000", "-v", "2"),
        ("-c", "stream", "-v", "5", "-s", "100", "-m", "host"),
        ("-c", "tag", "-v", "2"),
    ],
)
def test_the_client_s_messages_reach_the_server(options):
    server = start("ucp_client_server.py", "-l", "127.0.0.1", "-p", "0", "--clients", "2", *options)
    port = line_with(server, "listening").rpartition(" ")[2]
    clients = [over(start("ucp_client_server.py", "-a", "127.0.0.1", "-p", port, *options)) for _ in range(2)]
    out, code = over(server)
    assert (code, [each[1] for each in clients]) == (0, [0, 0]), out + clients[0][0] + clients[1][0]
    given = dict(zip(options[::2], options[1::2], strict=True))
    length = int(given.get("-s", 16)) * int(given.get("-v", 1))
    text = ("UCX client-server hello world " * (length // 30 + 1))[:length]
    assert out.count(f"----- received -----\n{text}\n") == 2 * min(int(given.get("-i", 1)), 2)
    assert f"iteration #{given.get('-i', 1)}" in out


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ucp_hello_world.py", ("-e", "magic")),
        ("ucp_hello_world.py", ("-m", "cuda")),
        ("ucp_hello_world.py", ("-s", "-1")),
        ("ucp_client_server.py", ("-c", "magic")),
        ("ucp_client_server.py", ("-v", "0")),
    ],
)
def test_options_that_cannot_be_meant_are_refused(name, options):
    out, code = over(start(name, *options))
    assert code == 2
    assert "expected" in out or "invalid choice" in out
