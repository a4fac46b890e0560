"""``amoeba fi-run`` and ``ucx-run`` tell at the end what the NICs did, and warn when they did nothing."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.tools.test_run_commands import amoeba, cache

pytest.importorskip("cffi", reason="libraries for C programs need the extra amoeba-nic[c]")

__all__ = ["cache"]

WORK = """
import os, signal, sys, time
import numpy as np
from amoeba import MrAccess
from amoeba.embed import process_nic
from amoeba.libfabric.objects.fabric import Fabric
mine = process_nic()
fabric = Fabric([mine.nic])
domain = fabric.domain()
queue, peers = domain.cq_open(), domain.av_open()
endpoint = domain.endpoint(cq=queue, av=peers)
me = peers.insert(endpoint.getname())
memory = np.zeros(1, np.uint64)
region = domain.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
for _ in range(3):
    endpoint.write(np.ones(1, np.uint64), me, region.address, region.key)
    queue.sread(timeout=60)
"""
"""Three writes to itself."""
TOLD = "amoeba: 1 process opened 1 NIC (model), which executed 3 operations: 3 writes"


def last_line(done):
    return done.stderr.rstrip("\n").split("\n")[-1]


def test_a_line_tells_what_the_nics_did(cache):
    done = amoeba(cache, "fi-run", "-n", "2", sys.executable, "-c", WORK + "sys.exit(5)")
    assert done.returncode == 5
    assert done.stdout == ""
    assert last_line(done).startswith(
        "amoeba: 2 processes opened 2 NICs (model), which executed 6 operations: 6 writes"
    )


def test_a_line_tells_it_of_a_program_that_was_killed(cache):
    done = amoeba(cache, "fi-run", sys.executable, "-c", WORK + "os.kill(os.getpid(), signal.SIGKILL)")
    assert done.returncode == 128 + signal.SIGKILL
    assert last_line(done).startswith(TOLD)


@pytest.mark.parametrize("told_to", ["all", "launcher", "launcher by SIGTERM"])
def test_a_line_tells_it_when_the_launcher_is_interrupted(cache, tmp_path, told_to):
    """The terminal's Ctrl-C reaches all. A launcher that alone is told stays until its program ends."""
    number = signal.SIGTERM if "SIGTERM" in told_to else signal.SIGINT
    said = tmp_path / "said"
    stop = f"open({str(said)!r}, 'w').close()\nwhile os.path.exists({str(said)!r}): time.sleep(0.01)\n"
    code = WORK + f"signal.signal({int(number)}, lambda *_: os.remove({str(said)!r}))\n" + stop
    own = {"AMOEBA_CACHE": str(cache), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(
        [sys.executable, "-m", "amoeba_tools", "fi-run", sys.executable, "-c", code],
        env=os.environ | own, start_new_session=True, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        while not said.exists() and process.poll() is None:
            time.sleep(0.01)
        if told_to == "all":
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        if told_to == "launcher":
            said.unlink()
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told
    assert TOLD in told
    assert "Traceback" not in told


def test_a_line_of_json_tells_it(cache):
    done = amoeba(cache, "fi-run", sys.executable, "-c", WORK, AMOEBA_COUNT="json")
    told = json.loads(last_line(done))
    assert (told["command"], told["nics"], told["warning"]) == ("fi-run", 1, None)
    assert told["operations"] == {"writes": 3, "reads": 0, "atomics": 0, "messages": 0}
    nothing = json.loads(last_line(amoeba(cache, "fi-run", "true", AMOEBA_COUNT="json")))
    assert (nothing["nics"], nothing["processes"]) == (0, [])
    assert nothing["warning"].startswith("no NIC was opened")


@pytest.mark.parametrize("command", ["fi-run", "ucx-run"])
def test_quiet_tells_nothing_and_counts_nothing(cache, command):
    amoeba(cache, command, "true")  # which may have to build the library
    code = "import os; print(os.environ['AMOEBA_COUNT_FOLDER'] or 'none')"
    done = amoeba(cache, command, "--quiet", sys.executable, "-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "none\n", "")


@pytest.mark.parametrize(
    ("command", "library", "remedy"),
    [("fi-run", "libamoeba-fi.so", "use libfabric"), ("ucx-run", "libucp.so.0", "LD_PRELOAD=/")],
)
def test_a_program_that_calls_no_library_of_amoeba_is_warned_of(cache, command, library, remedy):
    done = amoeba(cache, command, "sh", "-c", "exit 4")
    assert done.returncode == 4
    assert last_line(done).startswith(f"amoeba: warning: no NIC was opened: no process called {library}; ")
    assert remedy in last_line(done)


def test_a_program_that_opens_no_nic_is_warned_of(cache):
    code = "from amoeba.embed.counts import process_counts\nprocess_counts()"
    done = amoeba(cache, "fi-run", sys.executable, "-c", code)
    assert last_line(done) == "amoeba: warning: no NIC was opened, though 1 process called libamoeba-fi.so"


def test_a_nic_that_executes_nothing_is_warned_of(cache):
    code = "from amoeba.embed import process_nic\nprocess_nic()"
    done = amoeba(cache, "fi-run", sys.executable, "-c", code)
    assert last_line(done) == "amoeba: warning: 1 process opened 1 NIC (model), but the NICs executed nothing"


def test_a_file_of_a_stranger_in_the_folder_is_told_in_a_line(cache):
    code = WORK + "open(os.path.join(os.environ['AMOEBA_COUNT_FOLDER'], 'x' * 200), 'wb').write(b'garbage')"
    done = amoeba(cache, "fi-run", sys.executable, "-c", code)
    assert done.returncode == 0
    strange, told = done.stderr.rstrip("\n").split("\n")[-2:]
    assert strange == f"amoeba: no counts in 1 file, left out: {'x' * 60!r}"
    assert told.startswith(TOLD)


def test_a_process_that_outlives_its_launcher_ends_as_ever(cache, tmp_path):
    """The folder is gone when it opens its NIC."""
    done_file = tmp_path / "done"
    code = (
        "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\n"
        "while os.path.exists(os.environ['AMOEBA_COUNT_FOLDER']): time.sleep(0.01)\n"
        f"{WORK}open({str(done_file)!r}, 'w').close()"
    )
    done = amoeba(cache, "fi-run", sys.executable, "-c", code)  # until nobody writes to its pipes any more
    assert done.returncode == 0
    assert done_file.exists()


def test_without_a_folder_for_counts_the_program_runs(cache):
    code = (
        "import contextlib\nfrom amoeba_tools.cli import app, programs\n"
        "programs.counting_folder = contextlib.nullcontext\napp()"
    )
    own = {"AMOEBA_CACHE": str(cache), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", code, "fi-run", "sh", "-c", "exit 3"], env=os.environ | own,
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr == "amoeba: nothing was counted: expected a writable temporary folder (TMPDIR)\n"


def test_an_unknown_form_of_counts_is_refused_before_the_program_runs(cache):
    done = amoeba(cache, "fi-run", "echo", "ran", AMOEBA_COUNT="xml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "expected json or text, got 'xml'" in " ".join(done.stderr.replace("│", " ").split())


def test_a_host_that_is_none_is_refused_before_the_program_runs(cache):
    done = amoeba(cache, "fi-run", "--host", "a b", "echo", "ran")
    assert (done.returncode, done.stdout) == (1, "")
    assert "expected an IPv4 address of this host, got 'a b'" in done.stderr


def test_the_status_is_the_program_s_though_nobody_reads_what_is_told(cache):
    reader, writer = os.pipe()
    os.close(reader)
    own = {"AMOEBA_CACHE": str(cache), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with os.fdopen(writer, "wb") as broken:
        command = [sys.executable, "-m", "amoeba_tools", "fi-run", "sh", "-c", "exit 6"]
        done = subprocess.run(command, env=os.environ | own, stderr=broken, check=False, timeout=100)
    assert done.returncode == 6


@pytest.mark.parametrize("command", ["fi-run", "ucx-run"])
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("CONTEXTS", "33", "contexts must be 1 to 32, got 33"),
        ("CONTEXTS", "x", "expected a number, got 'x'"),
        ("PORT", "x", "expected a port of 0 to 65535, got 'x'"),
        ("HOST", "a b", "expected an IPv4 address of this host, got 'a b'"),
        ("NETWORK", "ib", "expected udp or uet, got 'ib'"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_the_program_runs(cache, command, name, value, message):
    done = amoeba(cache, command, "echo", "ran", **{f"AMOEBA_{name}": value})
    assert (done.returncode, done.stdout) == (1, "")
    assert f"AMOEBA_{name}: {message}" in done.stderr


# Settings of MPIs


SHOW = ["sh", "-c", 'echo "$MPIR_CVAR_CH4_NETMOD $MPIR_CVAR_NOLOCAL $OMPI_MCA_pml $OMPI_MCA_osc $I_MPI_FABRICS"']


def test_mpis_are_set_to_communicate_over_the_library(cache):
    assert amoeba(cache, "fi-run", *SHOW).stdout == "ofi 1 cm rdma ofi\n"
    assert amoeba(cache, "ucx-run", *SHOW).stdout == "ucx 1 ucx ucx \n"


def test_settings_of_the_user_stay(cache):
    user = {"MPIR_CVAR_CH4_NETMOD": "mine", "OMPI_MCA_osc": "pt2pt", "I_MPI_FABRICS": ""}
    assert amoeba(cache, "fi-run", *SHOW, **user).stdout == "mine 1 cm pt2pt \n"


@pytest.mark.parametrize("name", ["MPICH_NOLOCAL", "MPIR_PARAM_NOLOCAL"])
def test_settings_of_the_user_stay_under_older_names(cache, name):
    assert amoeba(cache, "fi-run", *SHOW, **{name: "0"}).stdout == "ofi  cm rdma ofi\n"
