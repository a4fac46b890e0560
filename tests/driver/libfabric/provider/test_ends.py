"""Processes that end anyhow: their peers know, nothing hangs, and nothing of them is left."""

import contextlib
import os
import signal
import subprocess
import time

import pytest

HOWS = {
    "return": (0,), "exit": (0,), "_exit": (0,), "abort": (-signal.SIGABRT, 1), "terminated": (-signal.SIGTERM, 1),
    "killed": (-signal.SIGKILL,), "killed in a call": (-signal.SIGKILL,), "returns beside a call": (0,),
    "exits beside a call": (0,),
}  # fmt: skip
"""By how a process ends, its status. 1: a library that Debian's libfabric loads, PSM, catches signals."""
SOON = 10.0
"""Seconds. It takes a few milliseconds, which a busy machine makes longer; what nobody tells ends after minutes."""


class Started:
    """One of the processes, which are spoken to by lines."""

    def __init__(self, program, environment, *arguments):
        self.process = subprocess.Popen(
            [str(program), *arguments], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def hear(self):
        return self.process.stdout.readline().strip()

    def say(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def ended(self, timeout=SOON):
        """Its status; and of its session nobody is left."""
        status = self.process.wait(timeout)
        with pytest.raises(ProcessLookupError):
            os.killpg(self.process.pid, 0)
        return status


@pytest.fixture(scope="module")
def ends(compiled):
    return compiled("ends")


@pytest.fixture
def start(ends, provider_environment):
    with contextlib.ExitStack() as stack:

        def start_it(*arguments):
            made = Started(ends, provider_environment, *arguments)
            stack.callback(made.process.communicate)
            stack.callback(made.process.kill)
            return made

        yield start_it


def pair(start, how):
    server = start("serve", how)
    name = server.hear()
    assert len(name) == 32, name
    peer = start("peer", name)
    assert peer.hear() == "reached"
    return server, peer


def told(peer, what):
    """Return the peer's report of its operation; the peer has ended well."""
    error, _, took = peer.hear().rpartition(" ")
    assert error in what, error
    assert float(took) < 1000 * SOON
    assert peer.ended() == 0


@pytest.mark.parametrize("how", HOWS)
def test_peers_know_of_a_process_that_has_ended(start, how):
    server, peer = pair(start, how)
    server.say()
    assert server.ended() in HOWS[how]
    peer.say()
    assert peer.hear() == "posted"
    told(peer, ("Connection reset by peer", "Transport endpoint is not connected", "Connection refused"))


def test_an_operation_in_flight_ends_with_its_peer(start):
    server, peer = pair(start, "killed")
    os.kill(server.process.pid, signal.SIGSTOP)
    peer.say()
    assert peer.hear() == "posted"
    time.sleep(0.1)  # on its way
    os.kill(server.process.pid, signal.SIGKILL)
    assert server.ended() == -signal.SIGKILL
    told(peer, ("Connection reset by peer",))
