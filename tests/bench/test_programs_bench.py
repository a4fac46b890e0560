"""The bench of programs of others: what it makes of what they print, and the table."""

import stat

import pytest

from bench import libfabric, operations, programs, shim
from bench.peer import Call

PROGRAM = """#!/bin/sh
for word; do case "$word" in 127.0.0.1) client=1;; esac; done
[ -z "$client" ] && exit 0
echo "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec"
echo "64      10      =10      1.2k        0.01s      0.12     545.10       0.00"
"""


@pytest.fixture
def pretended(tmp_path, monkeypatch):
    """A program in fi_pingpong's place."""
    path = tmp_path / "fi_pingpong"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(programs, "_SETTLING", 0.0)
    monkeypatch.setattr(programs, "environment_of", lambda provider: {})

    def write(text):
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    return write


def test_the_program_s_own_time_is_taken(pretended):
    pretended(PROGRAM)
    found = programs.measure()
    assert set(found) == set(programs.PROVIDERS)
    assert {half for sizes in found.values() for half, _ in sizes.values()} == {545.10}


def test_a_provider_that_fails_has_no_figures(pretended):
    pretended("#!/bin/sh\nexit 1\n")
    assert programs.measure() == {provider: {} for provider in programs.PROVIDERS}


def test_without_the_program_there_is_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert programs.measure() == {}


def test_the_table_says_how_often_as_long_ours_takes():
    found = {"amoeba": {64: (500.0, 300.0)}, "sockets": {64: (50.0, 40.0), 4096: (80.0, 60.0)}}
    assert programs.grid(found).rows == [
        ("amoeba", 64, 500.0, 300.0, 1.0), ("sockets", 64, 50.0, 40.0, 10.0), ("sockets", 4096, 80.0, 60.0, ""),
    ]  # fmt: skip


PERFTEST = """+--------------+--------------+------------------------------+
|     Test     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
                        1000   3726.288  4187.890  4141.931        0.00       0.00         239         241
"""


def test_the_overall_latency_of_ucx_s_program_is_taken():
    assert operations.parse_perftest(PERFTEST) == 4141.931
    assert operations.parse_perftest("the server is not there\n") is None


def test_ucx_s_program_runs_over_both_libraries(tmp_path, monkeypatch):
    program = tmp_path / "ucx_perftest"
    program.write_text(f"""#!/bin/sh
[ -z "$1" ] && exit 0
[ "$UCX_TLS" = tcp,self ] && exit 1
cat <<'END'
{PERFTEST}END
""")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(operations, "_SETTLING", 0.0)
    monkeypatch.setattr(operations, "_libucp", dict)
    monkeypatch.setattr(operations, "_NOISE", -1.0)  # the program here does nothing
    found = operations.ucx_figures()
    assert found["UCX over tcp"] == {}  # a way that fails has no figures
    assert {test: clock for test, (_, clock) in found["amoeba"].items()} == dict.fromkeys(
        operations.UCX_TESTS, 4141.931
    )


@pytest.mark.parametrize(
    ("seconds", "figures"),
    [({200: 1.0, 1200: 1.5}, (500.0, 7.0)), ({200: 1.0, 1200: 0.99, 12_000: 1.59}, (50.0, 7.0))],
    ids=["slow", "fast"],
)
def test_processor_time_comes_from_as_many_operations_as_exceed_the_noise(monkeypatch, seconds, figures):
    monkeypatch.setattr(operations, "_run", lambda test, count, environment: (7.0, seconds[count]))
    assert operations._perftest("tag_lat", {}) == pytest.approx(figures)


def test_an_operation_below_the_noise_has_no_figures(monkeypatch):
    monkeypatch.setattr(operations, "_run", lambda test, count, environment: (7.0, 1.0))
    assert operations._perftest("tag_lat", {}) is None


def test_figures_of_libfabric_are_alone_and_many(monkeypatch):
    def rates(provider, count, window, environment):
        if provider == "sockets":
            raise ValueError("no such provider")
        return {"fi_write, 8 bytes": Call(1e6 / window, 100.0, 500.0 / window)}

    monkeypatch.setattr(libfabric, "why_not", lambda: None)
    monkeypatch.setattr(libfabric, "libfabric_rates", rates)
    monkeypatch.setattr(operations, "environment_of", lambda provider: {})
    figures = operations.fabric_figures()
    assert figures == {name: {"write": (32.0, 500.0)} for name in ("amoeba", "tcp;ofi_rxm")}
    assert operations.fabric_grid(figures).rows == [
        ("write", "amoeba", 32.0, 500.0, 1.0), ("write", "tcp;ofi_rxm", 32.0, 500.0, 1.0),
    ]  # fmt: skip


def test_what_our_part_of_a_call_takes_is_measured_over_nothing():
    pytest.importorskip("cffi", reason="libraries for C programs need the extra amoeba-nic[c]")
    found = shim.measure()
    if not found:
        pytest.skip("no library can be built here")
    assert len(found) == 6 + 7  # the provider's, and libucp's
    assert all(cost > 0.2 for cost in found.values())  # less than the way from C to Python: nothing was called
    assert shim.misses({"fast": 4.9, "slow": 5.1}) == ["slow"]
