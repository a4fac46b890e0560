"""Teams and windows, and the calls that wait for as many operations as they say: on model and RTL."""

import multiprocessing
import threading
import time

import amoeba
import numpy as np
import pytest
from amoeba import (
    ArgumentTypeError,
    Errno,
    FabricError,
    MrAccess,
    OpFlags,
    Progress,
    ProtectionError,
    Rendezvous,
    Team,
    TimedOutError,
    TryAgainError,
    run_team,
)
from amoeba.devices.devices import DEVICE_KINDS

from tests.driver.endpoints import refused


@pytest.fixture(params=DEVICE_KINDS)
def kind(request):
    return request.param


# Waiting for operations


def write(side, address, key, value, context=None):
    client, peer = side
    client.endpoint.write(np.array([value], np.uint64), peer, address, key, context=context)


def has_space(side, region, context):
    """Whether the ring has taken one more write."""
    try:
        write(side, region.address, region.key, context, context)
    except TryAgainError:
        return False
    return True


@pytest.fixture
def side(pair):
    """(client, its number of the server)."""
    return pair[0], pair[0].peer


def test_an_operation_that_is_waited_for_is_over(side, target):
    memory, region = target
    client, peer = side
    entry = client.queue.post_and_wait(
        client.endpoint.write, np.array([7], np.uint64), peer, region.address, region.key
    )
    assert memory[0] == 7
    assert entry.op_context is None
    assert client.queue.read() == []


def test_entries_of_others_stay_in_their_order(side, target):
    _, region = target
    client, peer = side
    for number in range(3):
        write(side, region.address + 8 * number, region.key, 50 + number, context=number)
    found = np.zeros(1, np.uint64)
    client.queue.post_and_wait(client.endpoint.read, found, peer, region.address + 16, region.key)
    assert found[0] == 52
    assert [entry.op_context for entry in client.queue.wait_for(3)] == [0, 1, 2]


def test_an_operation_that_fails_raises_its_own_error_and_not_that_of_others(side, target):
    memory, region = target
    client, peer = side
    write(side, region.address, region.key + 1, 1, context="refused")
    value = np.array([9], np.uint64)
    client.queue.post_and_wait(client.endpoint.write, value, peer, region.address, region.key)
    assert memory[0] == 9
    with pytest.raises(FabricError, match="FI_EAVAIL"):
        client.queue.read()
    assert client.queue.readerr().op_context == "refused"
    with pytest.raises(ProtectionError):
        client.queue.post_and_wait(client.endpoint.write, value, peer, region.address, region.key + 1)
    assert client.queue.read() == []


def test_waiting_for_many_raises_the_first_error_once_all_are_over(side, target):
    memory, region = target
    client, _ = side
    write(side, region.address, region.key, 1)
    write(side, region.address, region.key + 1, 2)
    write(side, region.address + 8, region.key, 3)
    with pytest.raises(ProtectionError):
        client.queue.wait_for(3)
    assert list(memory[:2]) == [1, 3]
    assert client.queue.read() == []
    assert client.queue.wait_for(0) == []


def test_more_operations_than_the_ring_holds_are_posted_one_after_the_other(side, target):
    memory, region = target
    client, peer = side
    posted = 0
    while has_space(side, region, posted):
        posted += 1
    client.queue.post_and_wait(client.endpoint.write, np.array([77], np.uint64), peer, region.address, region.key)
    assert memory[0] == 77
    assert [entry.op_context for entry in client.queue.wait_for(posted)] == list(range(posted))


def test_when_the_time_is_over_no_entry_is_lost(side, target):
    _, region = target
    client, _ = side
    for number in range(2):
        write(side, region.address, region.key, number, context=number)
    told = ""
    deadline = time.monotonic() + 30
    while not told.endswith("2 did"):  # an RTL NIC on a busy machine needs several
        assert time.monotonic() < deadline, told
        with refused(Errno.FI_ETIMEDOUT, "expected 3 operations to end in 0.05 s, [012] did") as raised:
            client.queue.wait_for(3, timeout=0.05)
        told = str(raised.value)
    assert [entry.op_context for entry in client.queue.wait_for(2)] == [0, 1]
    assert client.queue.read() == []


def test_senseless_waits_are_refused(side):
    client, _ = side
    with refused(Errno.FI_EINVAL, "count: expected .* got -1"):
        client.queue.wait_for(-1)
    with pytest.raises(ArgumentTypeError, match="count"):
        client.queue.wait_for(1.5)
    with pytest.raises(ArgumentTypeError, match=r"call: expected a method that posts an operation"):
        client.queue.post_and_wait(b"write")
    with refused(Errno.FI_EINVAL, "context: expected none"):
        client.queue.post_and_wait(client.endpoint.write, b"", 0, 0, 0, context=1)
    with pytest.raises(TypeError, match="context"):
        client.queue.post_and_wait(client.endpoint.inject_write, b"12345678", 0, 0, 0)


# Teams


def test_every_rank_reaches_the_windows_of_all(kind):
    def program(team):
        window = team.window((2, 3), np.int32)
        window.local[0] = 10 * team.rank
        team.barrier()
        seen = [int(each[0, 1]) for each in window]
        for each in window:
            each.add_at((1, 2), team.rank + 1)
        team.barrier()
        return seen, int(window.local[1, 2]), len(window), window.shape, window.dtype

    assert run_team(program, [kind] * 3) == [([0, 10, 20], 1 + 2 + 3, 3, (2, 3), np.int32)] * 3


def test_messages_are_told_apart_by_sender_and_tag(kind):
    def program(team):
        if team.rank:
            for tag in (5, 0):
                team.send(np.array([100 * team.rank + tag]), 0, tag)
            return None
        received = []
        for rank, tag in ((2, 0), (1, 5), (1, 0), (2, 5)):
            into = np.zeros(4, np.int64)
            received.append((team.recv(into, rank, tag), int(into[0])))
        return received

    assert run_team(program, [kind] * 3)[0] == [(8, 200), (8, 105), (8, 100), (8, 205)]


def test_long_messages_go_round_a_ring(kind):
    def program(team):
        into = np.zeros(3000, np.uint64)
        mine = np.full(3000, team.rank, np.uint64)
        length = team.sendrecv(mine, (team.rank + 1) % team.ranks, into, (team.rank - 1) % team.ranks)
        return length, set(into.tolist())

    assert run_team(program, [kind] * 3) == [(24000, {2}), (24000, {0}), (24000, {1})]


def test_models_and_rtl_make_one_team():
    def program(team):
        window = team.window(1)
        found = int(window[0].fetch_add(0, 1))
        team.barrier()
        return found

    assert sorted(run_team(program, ["model", "rtl"])) == [0, 1]


def test_one_rank_is_a_team():
    def program(team):
        window = team.window(())
        window[0].add_at((), 3)
        into = bytearray(3)
        assert team.sendrecv(b"abc", 0, into, 0) == 3
        return int(window.local), bytes(into)

    assert run_team(program, ["model"]) == [(3, b"abc")]


def test_what_is_exchanged_is_what_json_makes_of_it():
    told = run_team(lambda team: team.exchange((team.rank, "ä")), ["model"] * 2)
    assert told == [[[0, "ä"], [1, "ä"]]] * 2


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda team: team.send(b"", 2), "rank: expected 0 to 1, got 2"),
        (lambda team: team.send(b"", -1), "rank"),
        (lambda team: team.recv(bytearray(8), 0, 1 << 32), "tag: expected 32 bits, got 0x100000000"),
        (lambda team: team.window(0), r"shape: expected lengths of 1 or more, got \(0,\)"),
        (lambda team: team.window(2, object), "dtype: expected numbers or bytes"),
        (lambda team: team.window(2 + team.rank), r"of all ranks, rank \d has .*\d,"),
        (lambda team: team.window(2, [np.uint64, np.int64][team.rank]), "of all ranks, rank"),
        (lambda team: team.exchange(object()), "not JSON serializable"),
        (lambda team: team.window(2)[2], "expected a rank of the window's 2, got 2"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, error):
    with pytest.raises((FabricError, TypeError, IndexError, ValueError), match=error):
        run_team(wrong, ["model"] * 2)


def test_a_message_that_is_too_long_raises_at_its_receiver():
    def program(team):
        if team.rank:
            team.send(bytes(9), 0)
        else:
            team.recv(bytearray(8), 1)

    with refused(Errno.FI_ETRUNC, ""):
        run_team(program, ["model"] * 2)


@pytest.mark.parametrize("waiting", ["barrier", "recv", "window"])
def test_the_error_of_one_rank_ends_the_others(waiting):
    ended = []

    def program(team):
        try:
            team.barrier()  # now all have begun
            if team.rank == 1:
                raise ZeroDivisionError("by rank 1")
            {
                "barrier": team.barrier,
                "recv": lambda: team.recv(bytearray(8), 1),
                "window": lambda: team.window(8),
            }[waiting]()
        except FabricError as error:
            ended.append(error)
            raise

    with pytest.raises(ZeroDivisionError) as raised:
        run_team(program, ["model"] * 3)
    assert raised.value.__notes__ == ["in rank 1 of 3"]
    assert len(ended) == 2
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("amoeba rank")] == []


def test_no_program_and_no_kinds_are_refused():
    with pytest.raises(ArgumentTypeError, match="program: expected a function of a Team"):
        run_team(["model"])
    with pytest.raises(ArgumentTypeError, match="kinds"):
        run_team(lambda team: None, "model")


def test_the_queue_and_endpoint_are_free_between_calls():
    def program(team):
        window = team.window(4)
        region = team.domain.mr_reg(np.arange(4, dtype=np.uint64), MrAccess.FI_REMOTE_READ)
        places = team.exchange([region.address, region.key])
        found = np.zeros(1, np.uint64)
        address, key = places[1 - team.rank]
        team.queue.post_and_wait(
            team.endpoint.read, found, 1 - team.rank, address + 16, key, flags=OpFlags.FI_COMPLETION
        )
        team.barrier()
        region.close()
        return int(found[0]), int(window[0][0])

    assert run_team(program, ["model"] * 2) == [(2, 0)] * 2


# Processes


def join(port: int, kind: str) -> None:
    with Rendezvous.connect("127.0.0.1", port) as rendezvous, Team.join(kind, rendezvous) as team:
        play(team)


def play(team: Team) -> list[int]:
    window = team.window(2)
    found = [int(each.fetch_add(0, 1)) for each in window]
    team.barrier()
    assert int(window.local[0]) == team.ranks
    into = np.zeros(1, np.uint64)
    team.sendrecv(np.array([team.rank + 40], np.uint64), 1 - team.rank, into, 1 - team.rank)
    assert into[0] == 41 - team.rank
    return found


def test_processes_make_a_team(kind):
    child = []

    def start(_, port):
        child.append(multiprocessing.get_context("spawn").Process(target=join, args=(port, kind)))
        child[0].start()

    with (
        Rendezvous.listen("127.0.0.1", 0, 2, ready=start) as rendezvous,
        Team.join(kind, rendezvous) as team,
    ):
        assert set(play(team)) <= {0, 1}
        assert repr(team) == "<Team rank 0 of 2>"
    child[0].join(30)
    assert child[0].exitcode == 0


def test_a_rank_whose_process_fails_waits_for_nobody():
    def other(port):
        with Rendezvous.connect("127.0.0.1", port) as rendezvous, Team.join("model", rendezvous) as team:
            team.barrier()
            raise KeyboardInterrupt

    def quietly(port):
        with pytest.raises(KeyboardInterrupt):
            other(port)

    threads = []

    def start(_, port):
        threads.append(threading.Thread(target=quietly, args=(port,)))
        threads[0].start()

    with Rendezvous.listen("127.0.0.1", 0, 2, ready=start) as rendezvous:
        team = Team.join("model", rendezvous)
        team.barrier()
        threads[0].join()
        with pytest.raises(FabricError) as raised:
            team.close()
    assert raised.value.fi_errno is Errno.FI_ECONNABORTED


def test_waits_with_automatic_progress_let_go_of_the_lock():
    with amoeba.open_cluster(["model"] * 2, progress=Progress.FI_PROGRESS_AUTO) as fabric:
        domain = fabric.domain(0)
        queue = domain.cq_open()
        with domain.av_open() as peers, domain.endpoint(cq=queue, av=peers):
            with pytest.raises(TimedOutError):
                queue.wait_for(1, timeout=0.01)
            threading.Timer(0.05, queue.signal).start()
            with refused(Errno.FI_ECANCELED, "signal"):
                queue.wait_for(1)
