"""UCX's own examples and its benchmark over libucp.so.0, as Debian has them."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.programs.missing import MissingError, compiler
from tests.support.programs.running import run_pair

EXAMPLES = Path("/usr/share/doc/libucx-dev/examples")
LONG = pytest.mark.long
DEVICES = ["model", pytest.param("rtl", marks=[LONG, pytest.mark.timeout(400)])]
KILLED = -9
TESTS = (
    "tag_lat", "tag_bw", "tag_sync_lat", "tag_sync_bw", "ucp_put_lat", "ucp_put_bw", "ucp_get", "ucp_add", "ucp_fadd",
    "ucp_swap", "ucp_cswap", "stream_bw", "stream_lat", "ucp_am_lat", "ucp_am_bw",
)  # fmt: skip
"""All tests of UCP that ucx_perftest 1.13 lists."""
ATOMICS = ("ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap")
LATENCIES = ("tag_lat", "ucp_put_lat", "ucp_am_lat", "stream_lat", "ucp_fadd")


@pytest.fixture
def port():
    """One that no other worker uses: programs of others listen at it at all addresses."""
    return 46800 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


@pytest.fixture(scope="session")
def example(tmp_path_factory):
    """A function that compiles one of UCX's examples."""

    def compiled(name):
        try:
            cc = compiler("ucp/api/ucp.h", "libucx-dev")
        except MissingError as missing:
            pytest.skip(str(missing))
        if not (EXAMPLES / f"{name}.c").is_file():
            pytest.skip(f"no {EXAMPLES}/{name}.c: apt install libucx-dev, with its documentation")
        built = tmp_path_factory.mktemp("example") / name
        command = [cc, "-O1", "-w", EXAMPLES / f"{name}.c", "-o", built, "-lucp", "-lucs", "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return str(built)

    return compiled


@pytest.fixture(scope="session")
def hello_world(example):
    return example("ucp_hello_world")


@pytest.fixture(scope="session")
def client_server(example):
    return example("ucp_client_server")


def greet(hello_world, environment, port, *options, timeout=60):
    command = [hello_world, "-p", str(port), *options]
    return run_pair(command, [*command, "-n", "127.0.0.1"], environment, timeout, port=port)


@pytest.mark.parametrize("mode", ["-b", "-w", "-f"])
def test_ucp_hello_world(libucp_environment, hello_world, port, mode):
    """By polling, by ucp_worker_wait(), by a descriptor."""
    server, client = greet(hello_world, libucp_environment, port, mode, "-s", "40")
    assert (server.status, client.status) == (0, 0), f"{server}\n{client}"
    assert "UCP TEST SUCCESS" in client.output


@LONG
@pytest.mark.timeout(400)
def test_ucp_hello_world_on_rtl(libucp_environment, hello_world, port):
    environment = libucp_environment | {"AMOEBA_DEVICE": "rtl"}
    server, client = greet(hello_world, environment, port, timeout=300)
    assert (server.status, client.status) == (0, 0), f"{server}\n{client}"
    assert "UCP TEST SUCCESS" in client.output


@pytest.mark.parametrize(
    ("failure", "who", "said"),
    [
        ("send", "server", "failure handler called with status -80"),
        ("recv", "client", "flush_ep completed"),
        ("keepalive", "client", "failure handler called with status -80"),
    ],
)
def test_ucp_hello_world_reports_a_peer_that_is_killed(libucp_environment, hello_world, port, failure, who, said):
    environment = libucp_environment | {"UCX_KEEPALIVE_INTERVAL": "1s"}
    command = [hello_world, "-p", str(port), "-e", failure]
    server, client = run_pair(
        command,
        [*command, "-n", "127.0.0.1"],
        environment,
        port=port,
        patience=20,  # it sleeps for 5 seconds
    )
    killed, other = (server, client) if who == "server" else (client, server)
    assert killed.status == KILLED, killed
    assert said in other.output, other


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["stream", "tag", "am"])
def test_ucp_client_server(libucp_environment, client_server, port, kind, device):
    times = "1" if kind == "am" else "4"  # its server has space for one active message, and loses others
    command = [client_server, "-p", str(port), "-c", kind, "-s", "3000", "-v", "3", "-i", times]
    environment = libucp_environment | {"AMOEBA_DEVICE": device}
    server, client = run_pair(
        [*command, "-l", "127.0.0.1"], [*command, "-a", "127.0.0.1"], environment, 300, port=port, endless=True
    )
    assert client.status == 0, f"{server}\n{client}"
    assert server.output.count(f"iteration #{times}") == 1, server


@pytest.fixture
def measure(libucp_environment, needs_program, port, tmp_path):
    """A function that runs tests of ucx_perftest, each with its options, between one server and one client: how many
    operations of each were measured."""

    def run(tests, options=(), timeout=200, **environment):
        batch = tmp_path / "batch"
        batch.write_text("".join(f"test{number} -t {test}\n" for number, test in enumerate(tests)))
        perftest = [needs_program("ucx_perftest", "ucx-utils"), "-p", str(port), "-b", str(batch), *options]
        server, client = run_pair(
            perftest, [*perftest, "127.0.0.1", "-f"], libucp_environment | environment, timeout, port=port
        )
        assert (server.status, client.status) == (0, 0), f"{server}\n{client}"
        return [int(line.split()[1]) for line in client.output.splitlines() if line.split()[0].startswith("test")]

    return run


def test_ucx_perftest(measure):
    """All tests, of 8 bytes."""
    assert measure([f"{test} -n 50 -w 5" for test in TESTS]) == [50] * len(TESTS)


def test_ucx_perftest_of_longer_messages(measure):
    sizes = [f"{test} -n 8 -w 2 -s {size}" for test in TESTS if test not in ATOMICS for size in (1024, 65536)]
    assert measure(sizes) == [8] * len(sizes)


def test_ucx_perftest_in_other_ways(measure):
    """Scattered memory, probes, any tag, data by reference; a worker that sleeps; one for several threads."""
    tests = [f"tag_lat -n 20 -w 2 -s 1000,8,2000 -D {layout}" for layout in ("iov,iov", "contig,iov", "iov,contig")]
    tests += [f"tag_lat -n 20 -w 2 {option}" for option in ("-U", "-C", "-M multi")]
    tests += ["stream_bw -n 20 -w 2 -r recv_data", "ucp_am_lat -n 20 -w 2 -s 100,8,3000 -D iov,iov"]
    assert measure(tests) == [20] * len(tests)
    assert measure(["tag_lat -n 20 -w 2"], ("-I",)) == [20]


@LONG
@pytest.mark.timeout(500)
def test_ucx_perftest_on_rtl(measure):
    tests = [f"{test} -n 10 -w 2" for test in LATENCIES]
    assert measure(tests, timeout=400, AMOEBA_DEVICE="rtl") == [10] * len(tests)
