"""The soak: it passes over bad links, repeats itself, and notices whatever is done twice, not at all or wrongly.

Covers ``cli/soak.py``, ``exactly_once.py``, ``workload.py`` and ``workload_records.py``.
"""

import json
import re
import shlex

import numpy as np
import pytest
from amoeba import FabricError, Retransmission, open_cluster
from amoeba.devices.devices import DEVICE_KINDS
from amoeba_model.impairments import Impairments
from amoeba_model.switch import Switch
from amoeba_tools import soak as soak_module
from amoeba_tools.cli import app
from amoeba_tools.exactly_once import mixed, verify
from amoeba_tools.soak import run_soak
from amoeba_tools.workload import Rank
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.support.commands import usage_error

pytestmark = [pytest.mark.long, pytest.mark.ci]

BAD = {
    "perfect": {},
    "loss": {"loss": 0.05},
    "duplication": {"duplication": 0.2},
    "reordering": {"reordering": 0.1},
    "corruption": {"corruption": 0.1},
    "delay": {"delay": 1000},
    "one percent": {"loss": 0.01, "duplication": 0.01, "reordering": 0.01, "corruption": 0.01},
    "everything": {"loss": 0.05, "duplication": 0.05, "reordering": 0.05, "corruption": 0.05, "delay": 300},
}
KINDS = {
    "add",
    "compare vector",
    "fetch add",
    "fetch vector",
    "long send",
    "read",
    "read vector",
    "send",
    "swap",
    "tagged send",
    "tell",
    "write",
    "write vector",
    "xor",
}
OPERATIONS = {"model": 400, "rtl": 160}
MANY = {"model": 2000, "rtl": 200}
"""Where frames seldom meet anything."""
SEED = 7


def soak(kinds, links="perfect", *, seed=SEED, retransmission=None, switch=None, **options):
    impairments = Impairments(seed, **(BAD[links] if isinstance(links, str) else links))
    with open_cluster(
        kinds,
        impairments=impairments,
        retransmission=retransmission,
        rtl_options={"host_latency": 40},
        switch=switch,
    ) as fabric:
        return run_soak(fabric, seed=seed, **options)


@pytest.mark.parametrize("links", BAD)
@pytest.mark.parametrize("kind", DEVICE_KINDS)
def test_every_operation_is_performed_once_whatever_the_links_do(kind, links):
    operations = (MANY if links == "one percent" else OPERATIONS)[kind]
    result = soak([kind] * 2, links, operations=operations)
    assert result.problems == (), f"links {links}, seed {SEED}"
    assert result.total == 2 * operations == 2 * result.posted
    assert set(result.operations) == KINDS
    traffic, counters = result.traffic, result.counters
    assert (traffic.lost > 0, traffic.duplicated > 0, traffic.reordered > 0, traffic.corrupted > 0) == tuple(
        bool(BAD[links].get(name)) for name in ("loss", "duplication", "reordering", "corruption")
    )
    assert (counters["RETRANSMISSIONS"] > 0) == (links not in ("perfect", "duplication", "delay")), counters
    assert counters["EVENTS"] > 0
    assert counters["MESSAGES_MATCHED"] > 0
    assert counters["MESSAGES_UNEXPECTED"] > 0 or operations == OPERATIONS["rtl"], counters
    assert counters["MESSAGES_MATCHED"] + counters["MESSAGES_UNEXPECTED"] == sum(
        count for operation, count in result.operations.items() if "send" in operation
    )
    assert counters["FAILED_PDCS"] == 0


def test_more_ranks_and_larger_windows_pass():
    assert soak(["model"] * 4, "everything", operations=100, window=64).problems == ()


def test_equal_seeds_make_equal_runs_and_others_do_not():
    first, again, other = (soak(["model"] * 2, "everything", seed=seed, operations=150) for seed in (1, 1, 2))
    for name in ("operations", "traffic", "counters", "cycles"):
        assert getattr(first, name) == getattr(again, name)
        assert getattr(first, name) != getattr(other, name)


TWO_PERCENT = {"loss": 0.02, "duplication": 0.02, "reordering": 0.02, "corruption": 0.02}
SWITCHES = {"pause": Switch(buffer=60_000, nic_buffer=60_000, pause=True, mark=3000), "drop": Switch(8000, mark=3000)}


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("incast", [False, True], ids=["all to all", "all to one"])
def test_every_operation_is_performed_once_whatever_the_switch_has_no_space_for(switch, incast):
    result = soak(["model"] * 5, TWO_PERCENT, operations=80, switch=SWITCHES[switch], incast=incast)
    assert result.problems == ()
    assert result.traffic.marked > 0
    assert (result.traffic.dropped > 0) is (switch == "drop")
    assert result.traffic.lost > 0


@pytest.mark.parametrize("kind", ["rtl"])
def test_every_operation_is_performed_once_on_rtl(kind):
    result = soak([kind, "model", "model"], TWO_PERCENT, operations=60, switch=SWITCHES["drop"], incast=True)
    assert result.problems == ()


def test_a_soak_ends_with_its_time_and_tells_how_far_it_got():
    told = []
    result = soak(["model"] * 2, seconds=0.5, progress=told.append)
    assert result.passed
    assert 0.5 <= result.seconds < 30
    assert sum(told) == result.total > 100


# What must be noticed


def word(at, delta):
    """Change a word of rank 0's memory."""

    def change(ranks):
        place = ranks[0]._memory[at(ranks[0]._layout) :][:8].view(np.uint64)
        place += np.uint64(delta)

    return change


def scribble(ranks):
    """Change words all over what rank 1 writes: later writes hide some of them."""
    for part in range(8):
        word(lambda layout, part=part: layout.slab_of(1) + part * layout.slab // 8, 1)(ranks)


def forget(ranks):
    """Let rank 1 lose what it hears next."""
    ranks[1]._hear = lambda data, source: delattr(ranks[1], "_hear")


def repeat(ranks):
    """Let rank 1 hear something twice."""

    def twice(data, source):
        del ranks[1]._hear
        ranks[1]._hear(data, source)
        ranks[1]._hear(data, source)

    ranks[1]._hear = twice


def arriving(change):
    """Let ``change`` do what it wants with the next message of rank 1: it gets the rank, the entry and the source."""

    def sabotage(ranks):
        rank = ranks[1]

        def arrive(entry, source):
            del rank._arrive
            change(rank, entry, source)

        rank._arrive = arrive

    return sabotage


def damage(rank, entry, source):
    entry.op_context.buffer[entry.len - 1] ^= 1
    rank._arrive(entry, source)


def twice(rank, entry, source):
    """As if the next receive had met the same message."""
    message = entry.op_context.buffer[: entry.len].copy()
    rank._arrive(entry, source)
    following = rank._receives[entry.op_context.lane][0]
    following.buffer[: entry.len] = message
    rank._arrive(entry._replace(op_context=following), source)


def overtake(ranks):
    """Let rank 0 send the message after the next one to rank 1, in a lane."""
    ranks[0]._peers[1].messages[0] += 1


SABOTAGE = {
    "a message that is damaged": (arriving(damage), "message .* are not what was sent"),
    "a message that is lost": (arriving(lambda *_: None), r"received\[\d\] of rank 1 is|no operation"),
    "a message that comes twice": (arriving(twice), "message .* are not what was sent"),
    "a message that overtakes another": (overtake, "message .* are not what was sent"),
    "a message from another rank": (
        arriving(lambda rank, entry, source: rank._arrive(entry, 1 - source)),
        "message .* are not what was sent",
    ),
    "an addition too many": (word(lambda layout: layout.fetched, 1), "is no sequence of additions"),
    "an addition lost": (word(lambda layout: layout.fetched + 8, -5 % 2**64), "fetch add: counter 1|no sequence"),
    "a sum that is wrong": (word(lambda layout: layout.added, 1), r"added\[0\] of rank 0 is"),
    "a swap too many": (word(lambda layout: layout.swapped, 1), r"swapped\[0\] of rank 0 is"),
    "an XOR too many": (word(lambda layout: layout.xored, 1), r"xored\[0\] of rank 0 is"),
    "bytes that nobody wrote": (scribble, r"slabs\[1\] of rank 0|byte \d+ of \d+ is"),
    "data that is lost": (forget, "heard data|heard"),
    "data that comes twice": (repeat, "heard data"),
}


@pytest.mark.parametrize("what", SABOTAGE)
def test_the_soak_notices(monkeypatch, what):
    change, words = SABOTAGE[what]
    ranks = []
    original = Rank.meet
    monkeypatch.setattr(Rank, "meet", lambda self, introductions: (ranks.append(self), original(self, introductions)))
    done = 0

    def progress(count):
        nonlocal done
        if done < 200 <= done + count:
            change(ranks)
        done += count

    result = soak(["model"] * 2, operations=200, progress=progress, patience=1)
    assert not result.passed
    assert any(re.search(words, problem) for problem in result.problems), result.problems


def test_a_peer_that_is_given_up_is_a_problem_and_ends_the_run():
    def progress(count):
        network = fabric.network
        network.cut(fabric.devices[1])

    with open_cluster(["model"] * 2, retransmission=Retransmission(timeout=1000, limit=2)) as fabric:
        result = run_soak(fabric, operations=1000, progress=progress)
    assert all("FI_ECONNRESET" in problem for problem in result.problems)
    assert result.problems
    assert result.posted < 1000


def test_a_hang_is_a_problem_and_ends_the_run():
    with open_cluster(["model"] * 2, retransmission=Retransmission(timeout=1 << 30)) as fabric:
        fabric.network.pause(fabric.devices[0])
        result = run_soak(fabric, operations=50, patience=0.3)
    assert result.problems == tuple(
        f"rank {rank}: no completion for 0.3 s, with 16 operations outstanding" for rank in range(2)
    )


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=20), st.data())
def test_fetched_values_that_are_no_sequence_do_not_add_up(steps, data):
    """A counter's value before each addition, by each adder's report; then one of the reports is changed."""
    fetched = [sum(steps[:n]) for n in range(len(steps))]

    def reports(values):
        total = sum(mixed(value + step) - mixed(value) for value, step in zip(values, steps, strict=True))
        sent = {"slab": "", "told": 0, "messages": [], "added": [], "xored": [], "swapped": [], "steps": [total]}
        empty = {"rank": 0, "problems": [], "added": [], "xored": [], "swapped": [], "slabs": [""], "heard": [0]}
        empty["received"] = [[]]
        return [{**empty, "sent": [sent], "fetched": [sum(steps)]}]

    assert verify(reports(fetched)) == []
    at = data.draw(st.integers(0, len(steps) - 1))
    fetched[at] = data.draw(st.integers(0, 20000).filter(lambda value: value != fetched[at]))
    assert len(verify(reports(fetched))) == 1


@pytest.mark.parametrize("options", [{"window": 0, "seconds": 1}, {"window": 1025, "seconds": 1}, {}])
def test_senseless_runs_are_refused(options):
    with open_cluster(["model"]) as fabric, pytest.raises(FabricError, match=r"^FI_EINVAL: expected a window"):
        run_soak(fabric, **options)


# The command


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def test_the_command_prints_what_happened():
    result = run("soak", "--loss", 0.05, "--operations", 100, "--ranks", 3)
    assert result.exit_code == 0, result.output
    for words in ("each once, verified", "300", "timeouts", "requests received again", "operations per host second"):
        assert words in result.output


def test_the_command_prints_json_and_nothing_else():
    result = run("soak", "--duplication", 0.5, "--operations", 50, "--json", "--seed", 3)
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    assert (facts["passed"], facts["problems"], facts["total"], facts["seed"]) == (True, [], 100, 3)
    assert facts["traffic"]["duplicated"] > 0
    assert set(facts["operations"]) <= KINDS


def test_what_goes_wrong_has_status_1_and_a_command_that_does_it_again():
    options = ["--loss", 0.6, "--seconds", 20, "--retransmit-limit", 1, "--retransmit-timeout", 900, "--seed", 4]
    first = run("soak", *options, "--window", 5)
    assert first.exit_code == 1
    (again,) = (line for line in first.output.splitlines() if line.startswith("again: "))
    _, program, *arguments = shlex.split(again)
    assert program == "amoeba"
    second = run(*arguments)
    assert second.exit_code == 1

    def wrong(output):
        return [line for line in output.splitlines() if line.startswith(("wrong: ", "again: "))]

    assert wrong(first.output) == wrong(second.output) != []


def test_the_end_of_the_run_is_told_if_no_rank_is_wrong(monkeypatch):
    monkeypatch.setattr(soak_module, "verify", lambda reports: ["the memory is wrong"])
    result = run("soak", "--operations", 5)
    assert result.exit_code == 1
    assert "wrong: the memory is wrong" in result.output


def test_the_command_has_a_switch_and_says_it_again(monkeypatch):
    monkeypatch.setattr(soak_module, "verify", lambda reports: ["the memory is wrong"])
    options = "--switch drop --buffer 6000 --mark 2000 --incast --ranks 4 --operations 40 --window 64"
    result = run("soak", *options.split())
    assert "dropped" in result.output
    assert "--switch drop --buffer 6000 --mark 2000 --incast" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--loss", 2), "'--loss': .*less than or equal to 1"),
        (("--switch", "lossy"), "'--switch': .*'lossy'"),
        (("--mark", 100), "--switch: --buffer and --mark need --switch"),
        (("--buffer", 100), "--switch: --buffer and --mark need --switch"),
        (("--switch", "drop", "--listen", "127.0.0.1:0"), "--switch: a switch joins NICs of one process only"),
        (("--window", 0), "'--window': .*greater than or equal to 1"),
        (("--seed", -1), "'--seed': .*greater than or equal to 0"),
        (("--device", "abacus"), "--device: .*'abacus'"),
        (("--listen", "127.0.0.1:0", "--connect", "127.0.0.1:7471"), "--connect: expected --listen in one process"),
        (("--connect", "127.0.0.1:7471", "--ranks", 2), "--ranks: the process with --listen sets"),
    ],
)
def test_wrong_options_are_usage_errors(arguments, said):
    assert re.search(said, usage_error(run("soak", *arguments)))
