"""The bench of programs of others: what it makes of what they print, and the table."""

import stat

import pytest

from bench import programs

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
    monkeypatch.setattr(programs, "_environment", lambda provider: {})

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
