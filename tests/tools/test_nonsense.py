"""Commands whose partner in another process sends values that make no sense: one line each, and no traceback.

Covers ``perf/run.py`` and ``conformance/remote.py``.
"""

import contextlib
import queue
import socket
import threading

import pytest
from amoeba import join_cluster
from amoeba.devices.bootstrap import Rendezvous
from amoeba_tools.cli import app
from amoeba_tools.conformance import join_pair, run, select
from amoeba_tools.perf import PerfPlan, answer_plans, run_plans
from amoeba_tools.random_access import run_gups
from amoeba_tools.soak import run_soak
from typer.testing import CliRunner

NONSENSE = [7, "nonsense", {"worker": 1}, [None] * 4, ["127.0.0.1", -1, "zz", "10.0.0.1"]]
MAX_LIES = 5
"""Exchanges of a command at which the partner lies; later ones repeat these."""


class Liar(Rendezvous):
    """Gives a wrong value at one of its exchanges, and leaves."""

    def lie(self, number, value):
        self.left, self.value, self.lied = number, value, False
        return self

    def exchange(self, value, idle=None):
        self.left -= 1
        if self.left < 0:
            self.lied = True
            super().exchange(self.value, idle)
            raise ConnectionAbortedError
        return super().exchange(value, idle)


def gups(liar):
    with join_cluster("model", liar) as fabric:
        run_gups(fabric, table_bits=6, updates=64, rendezvous=liar)


def soak(liar):
    with join_cluster("model", liar) as fabric:
        run_soak(fabric, operations=20, seconds=None, rendezvous=liar)


def conformance(liar):
    with join_pair("model", liar) as pair:
        if pair is not None:
            run(pair, select("fi_rma.read_fetches_these_bytes_and_no_others"))


def client(liar):
    list(run_plans([PerfPlan("ucp", "tag_lat", iterations=4, warmup=0)], ["model"], rendezvous=liar))


def server(liar):
    answer_plans("model", liar)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def partner(play, connect, port, number, value, done):
    """Run the liar's side of a command; report whether the side came to its lie."""
    with contextlib.suppress(OSError):
        liar = Liar.connect("127.0.0.1", port) if connect else Liar.listen("127.0.0.1", port, 2)
        with liar.lie(number, value):
            try:
                play(liar)
            finally:
                done.put(liar.lied)


@pytest.mark.parametrize("value", NONSENSE, ids=str)
@pytest.mark.parametrize(
    ("play", "connect", "command"),
    [
        (gups, True, ("gups", "--table-size", 6, "--updates", 64, "--listen")),
        (gups, False, ("gups", "--table-size", 6, "--updates", 64, "--connect")),
        (soak, True, ("soak", "--operations", 20, "--patience", 5, "--listen")),
        (conformance, True, ("conformance", "--page", "fi_rma.read_fetches_these_bytes_and_no_others", "--listen")),
        (conformance, False, ("conformance", "--connect")),
        (client, True, ("perf", "-p")),
        (server, False, ("perf", "127.0.0.1", "-t", "tag_lat", "-n", 4, "-w", 0, "-p")),
    ],
    ids=["gups-0", "gups-1", "soak", "conformance-0", "conformance-1", "perf-server", "perf-client"],
)
def test_nonsense_of_a_partner_ends_a_command_with_one_line(play, connect, command, value):
    number, lied = 0, True
    while lied and number < MAX_LIES:
        port, done = free_port(), queue.Queue()
        beside = threading.Thread(target=partner, args=(play, connect, port, number, value, done))
        beside.start()
        address = port if command[0] == "perf" else f"127.0.0.1:{port}"
        result = CliRunner().invoke(app, [str(each) for each in (*command, address)])
        beside.join()
        lied = done.get()
        assert result.exception is None or isinstance(result.exception, SystemExit), (number, result.exception)
        number += 1
    assert number > 2
