"""Two processes, each with a NIC of its own, that talk over UDP."""

import contextlib
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from amoeba import Errno, PeerError, Rendezvous, join_cluster
from amoeba_tools.random_access import run_gups

from tests.support.commands import AMOEBA, LONG, ended, process
from tests.support.pairs import PAIRS


class EnoughError(Exception):
    """Ends a run halfway."""


@contextlib.contextmanager
def listener(*arguments):
    """A process that listens, and its address."""
    with process(*arguments, "--listen", "127.0.0.1:0") as started:
        line = started.stderr.readline()
        assert line.startswith("waiting at 127.0.0.1:"), line
        yield started, line.split()[-1]


@pytest.mark.parametrize("kinds", PAIRS)
def test_random_access_between_two_processes_verifies(kinds):
    sizes = ["--table-size", 7, "--window", 16, "--json"]
    here, there = kinds.split(",")
    with (
        listener("gups", "--device", here, *sizes) as (first, address),
        process("gups", "--device", there, *sizes, "--connect", address) as second,
    ):
        results = [ended(started) for started in (first, second)]
    assert [status for status, _, _ in results] == [0, 0], results
    facts = [json.loads(output) for _, output, _ in results]
    for one in facts:
        assert (one["passed"], one["errors"], one["faults"]) == (True, 0, [])
        assert (one["updates"], one["table_words"], one["distributed"]) == (512, 128, True)
        assert [device.split()[0] for device in one["devices"]] == [here, there]
        assert one["cycles"] == facts[0]["cycles"] > 0


def test_three_processes_share_a_table_too():
    sizes = ["--table-size", 6]
    with listener("gups", *sizes, "--ranks", 3) as (first, address), contextlib.ExitStack() as exits:
        others = [exits.enter_context(process("gups", *sizes, "--connect", address)) for _ in range(2)]
        for started in (first, *others):
            status, output, errors = ended(started)
            assert status == 0, errors
            assert "0, verified" in output
            assert "GUPS" not in output, "clocks that also run while waiting measure no speed"


def test_an_error_in_one_process_is_an_error_of_both():
    """The second one's part of the stream begins elsewhere, so that the table must come out wrong."""
    wrong = "from amoeba_tools import random_access as r; s = r.stream; r.stream = lambda at, n: s(at + 1, n); "
    with (
        listener("gups", "--table-size", 6, "--json") as (first, address),
        subprocess.Popen(
            [sys.executable, "-c", wrong + AMOEBA[2], "gups", "--table-size", "6", "--json", "--connect", address],
            stdout=subprocess.PIPE,
            text=True,
        ) as second,
    ):
        results = [started.communicate(timeout=LONG)[0] for started in (first, second)]
        assert [first.returncode, second.returncode] == [1, 1]
    errors = [json.loads(output)["errors"] for output in results]
    assert errors[0] > 0


def test_different_sizes_are_refused_on_both_sides():
    with (
        listener("gups", "--table-size", 6) as (first, address),
        process("gups", "--table-size", 7, "--connect", address) as second,
    ):
        for status, _, errors in (ended(first), ended(second)):
            assert status == 1
            assert "all ranks need the same words, updates and position" in " ".join(errors.split())


def test_a_process_that_leaves_halfway_ends_the_other_with_an_error():
    def leave(done):
        raise EnoughError

    with listener("gups", "--table-size", 16) as (first, address):
        host, port = address.split(":")
        with (
            pytest.raises(EnoughError),
            Rendezvous.connect(host, int(port)) as rendezvous,
            join_cluster("model", rendezvous) as fabric,
        ):
            run_gups(fabric, table_bits=16, rendezvous=rendezvous, progress=leave)
        status, _, errors = ended(first)
    assert status == 1
    assert "FI_ECONNABORTED: another process is gone" in " ".join(errors.split())


def test_a_process_whose_nic_ends_before_its_connection_is_gone_all_the_same(monkeypatch):
    """The operations of the other fail first, which then waits for the connection to end."""
    refused, check = threading.Event(), Rendezvous.check

    def checked(self, patience=0.0):
        if patience:
            refused.set()
        check(self, patience)

    def leave(done):
        raise EnoughError

    def go_early(*address):
        with Rendezvous.connect(*address) as rendezvous:
            with pytest.raises(EnoughError), join_cluster("model", rendezvous) as fabric:
                run_gups(fabric, table_bits=12, rendezvous=rendezvous, progress=leave)
            assert refused.wait(60)

    monkeypatch.setattr(Rendezvous, "check", checked)
    with ThreadPoolExecutor(1) as pool:
        leaving = []
        with (
            Rendezvous.listen(
                "127.0.0.1", 0, 2, ready=lambda *address: leaving.append(pool.submit(go_early, *address))
            ) as rendezvous,
            join_cluster("model", rendezvous) as fabric,
            pytest.raises(PeerError) as caught,
        ):
            run_gups(fabric, table_bits=12, rendezvous=rendezvous)
        leaving[0].result(60)
    assert caught.value.fi_errno == Errno.FI_ECONNABORTED


def test_two_processes_soak_over_links_that_lose_frames():
    options = ["--operations", 200, "--json"]
    for fate in ("loss", "duplication", "reordering", "corruption"):
        options += [f"--{fate}", 0.01]
    with (
        listener("soak", *options) as (first, address),
        process("soak", *options, "--connect", address) as second,
    ):
        results = [ended(started) for started in (first, second)]
    assert [status for status, _, _ in results] == [0, 0], results
    facts = [json.loads(output) for _, output, _ in results]
    for one in facts:
        assert (one["passed"], one["total"], len(one["devices"])) == (True, 400, 2)
        assert one["traffic"]["lost"] > 0
        assert {"send", "tagged send", "long send"} <= set(one["operations"])
        assert one["operations"] == facts[0]["operations"]


def test_soaks_with_different_seeds_are_refused_on_both_sides():
    with (
        listener("soak", "--seed", 1) as (first, address),
        process("soak", "--seed", 2, "--connect", address) as second,
    ):
        for status, _, errors in (ended(first), ended(second)):
            assert status == 1
            assert "all ranks need the same seed, got [1, 2]" in " ".join(errors.split())
