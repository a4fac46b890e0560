"""The files of counts that processes leave, as their launcher reads them: also torn, and of strangers.

Covers ``amoeba_tools/counts.py``.
"""

import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from amoeba.embed.counts import FOLDER, MAGIC, RECORD, NicCounts, ProcessCounts
from amoeba_tools.counts import Counts, ProcessRecord, counting_folder, read_counts

WRITING = """
import os, signal, sys
import numpy as np
from amoeba import MrAccess, Op
from amoeba.embed import process_nic
from amoeba.embed.counts import process_counts
from amoeba.libfabric.objects.fabric import Fabric


def work(writes):
    mine = process_nic()
    with Fabric([mine.nic]) as fabric:
        domain = fabric.domain()
        queue, peers = domain.cq_open(), domain.av_open()
        endpoint = domain.endpoint(cq=queue, av=peers)
        me = peers.insert(endpoint.getname())
        memory = np.zeros(1, np.uint64)
        region = domain.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
        for _ in range(writes):
            endpoint.write(np.ones(1, np.uint64), me, region.address, region.key)
            queue.sread(timeout=60)
        yield
    mine.release()


process_counts()
"""
"""Writes to itself: each process' NIC is its own peer."""
OF_TWO = Counts(
    [ProcessRecord(1, "model", 1, 4, (1, 0, 2, 0, 0)), ProcessRecord(2, "model", 1, 5, (7, 1, 0, 1, 3))]
)


def run(code, folder, **environment):
    own = {FOLDER: str(folder), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run(
        [sys.executable, "-c", WRITING + code], env=os.environ | own | environment, capture_output=True, text=True,
        check=False, timeout=100,
    )  # fmt: skip


def test_a_process_leaves_its_counts(tmp_path):
    done = run("for _ in work(5): pass", tmp_path)
    assert done.returncode == 0, done.stderr
    counts = read_counts(tmp_path)
    (record,) = counts.processes
    assert (record.device, record.nics) == ("model", 1)
    assert counts.operations == {"writes": 5, "reads": 0, "atomics": 0, "messages": 0}
    assert (counts.failed, counts.strange) == (0, [])
    assert counts.answered >= 5


def test_d10_a_process_that_is_killed_leaves_its_counts(tmp_path):
    done = run("next(work(5)); os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    counts = read_counts(tmp_path)
    assert (counts.opened, counts.operations["writes"]) == (1, 5)


def test_a_child_has_counts_of_its_own(tmp_path):
    code = (
        "mine = work(2); next(mine)\n"
        "if (child := os.fork()) == 0:\n"
        "    for _ in work(3): pass\n"
        "    os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "for _ in mine: pass\n"
        "print(child)\n"
    )
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
    found = {record.pid == int(done.stdout): record.executed[0] for record in read_counts(tmp_path).processes}
    assert found == {False: 2, True: 3}


def test_a_child_without_a_nic_changes_nothing(tmp_path):
    code = "mine = work(2); next(mine)\nif os.fork() == 0: os._exit(0)\nos.wait()\nfor _ in mine: pass"
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
    (record,) = read_counts(tmp_path).processes
    assert (record.nics, record.executed[0]) == (1, 2)


def test_a_process_opens_one_nic_behind_the_other(tmp_path):
    done = run("for _ in range(3):\n    for _ in work(1): pass", tmp_path)
    assert done.returncode == 0, done.stderr
    (record,) = read_counts(tmp_path).processes
    assert (record.nics, record.executed[0]) == (3, 3)


@pytest.mark.parametrize("folder", ["", "/nowhere/at/all", "/dev/null"])
def test_without_a_folder_nothing_is_counted_and_nothing_fails(folder):
    done = run("for _ in work(1): pass\nprint(process_counts())", folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "None\n", "")


def test_a_counter_of_the_nic_s_may_wrap_around_and_start_anew(tmp_path):
    nic, counts = SimpleNamespace(executed=None), ProcessCounts(str(tmp_path))
    nic.counter = lambda counter: 2**32 - 3
    looking = NicCounts(counts, nic, "model")
    for answered, total in [(5, 8), (5, 8), (100, 103), (0, 103), (7, 110), (2**32 - 1, 110)]:
        nic.counter = lambda counter, answered=answered: answered  # 0 after a reset; all ones of a card that is gone
        looking.look()
        assert read_counts(tmp_path).answered == total


GOOD = RECORD.pack(MAGIC, 77, b"model", 1, 2, *range(5))
STRANGE = {
    "empty": b"",
    "torn": GOOD[:-1],
    "longer": GOOD + b"\0",
    "huge": GOOD * 10_000,
    "zeros": bytes(RECORD.size),
    "garbage": bytes(range(256))[: RECORD.size],
    "of another version": b"AMOEBA#9" + GOOD[8:],
    "beyond all bounds": RECORD.pack(MAGIC, 77, b"model", 1, 2, 2**64 - 1, 0, 0, 0, 0),
    "no text": RECORD.pack(MAGIC, 77, b"mo\x1b[2Jel", 1, 2, *range(5)),
    "no ASCII": RECORD.pack(MAGIC, 77, b"mod\xff", 1, 2, *range(5)),
    "a NIC of no kind": RECORD.pack(MAGIC, 77, b"", 1, 2, *range(5)),
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_file_that_holds_no_counts_is_named_and_left_out(tmp_path, name):
    (tmp_path / "good.counts").write_bytes(GOOD)
    (tmp_path / name).write_bytes(STRANGE[name])
    counts = read_counts(tmp_path)
    assert counts.strange == [name]
    assert counts.processes == [ProcessRecord(77, "model", 1, 2, tuple(range(5)))]


def test_what_is_no_file_neither_holds_the_reader_up_nor_is_followed(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    outside = tmp_path / "folder" / "counts"
    outside.write_bytes(GOOD)
    (tmp_path / "link").symlink_to(outside)
    unreadable = read_counts(tmp_path)
    assert (unreadable.processes, unreadable.strange) == ([], ["folder", "link", "pipe"])


def test_a_limited_number_of_files_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("amoeba_tools.counts._MAX_FILES", 3)
    for number in range(5):
        (tmp_path / str(number)).write_bytes(GOOD)
    counts = read_counts(tmp_path)
    assert (len(counts.processes), counts.strange) == (3, ["those behind the first 3"])
    assert read_counts(tmp_path / "nowhere").processes == []


def test_the_folder_is_the_user_s_own_and_goes_away():
    with counting_folder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "file").touch()
    assert not folder.exists()


def test_without_space_for_a_folder_nothing_is_made(monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/nowhere/at/all")
    with counting_folder() as folder:
        assert folder is None


def test_counts_are_summed_up_in_a_sentence():
    assert OF_TWO.sentence() == (
        "2 processes opened 2 NICs (model), which executed 12 operations: 8 writes, 1 read, 2 atomics, 1 message; "
        "3 failed; answered 9 requests"
    )
    assert OF_TWO.warning("lib", "remedy") is None
    one = Counts([ProcessRecord(1, "rtl", 1, 0, (1, 0, 0, 0, 0)), ProcessRecord(2, "", 0, 0, (0,) * 5)])
    assert one.sentence() == "1 process opened 1 NIC (rtl), which executed 1 operation: 1 write"


def test_counts_are_summed_up_as_json():
    told = json.loads(OF_TWO.as_json("fi-run", None))
    assert told["operations"] == {"writes": 8, "reads": 1, "atomics": 2, "messages": 1}
    assert [told[name] for name in ("command", "nics", "failed", "answered", "unreadable", "warning")] == (
        ["fi-run", 2, 3, 9, 0, None]
    )
    assert told["processes"][1] == {
        "pid": 2, "device": "model", "nics": 1, "writes": 7, "reads": 1, "atomics": 0, "messages": 1, "failed": 3,
        "answered": 5,
    }  # fmt: skip


def test_nics_that_did_nothing_are_warned_of():
    nothing = (0,) * 5
    assert Counts([]).warning("libx.so", "try this") == "no NIC was opened: no process called libx.so; try this"
    assert Counts([ProcessRecord(1, "", 0, 0, nothing)]).warning("libx.so", "") == (
        "no NIC was opened, though 1 process called libx.so"
    )
    opened = ProcessRecord(1, "rtl", 1, 0, nothing)
    assert Counts([opened]).warning("libx.so", "") == "1 process opened 1 NIC (rtl), but the NICs executed nothing"
    served = ProcessRecord(1, "rtl", 1, 1, nothing)
    assert Counts([opened, served]).warning("libx.so", "") is None
    assert Counts([served]).sentence().endswith("executed 0 operations; answered 1 request")
