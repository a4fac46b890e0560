"""NICs that run at the same time: in threads of their own, and never where one could see what another does."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import pytest
from amoeba_model.device import DeviceError
from amoeba_model.grants import MemoryGrants
from amoeba_model.network import Network
from amoeba_model.side_by_side import Crew, Meetings, helping_threads
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.scripted import ScriptedDevice, mac_of

SPACE = 32


class CompiledDevice(ScriptedDevice):
    """One that needs no interpreter while it runs, or so it says; notes in which threads it ran."""

    def __init__(self, name="compiled", *, apart=True, others=()):
        super().__init__(name)
        self.apart = apart
        self.threads = set()
        self.started = threading.Event()
        self.waits_for = others
        self.grants = MemoryGrants()

    @property
    def runs_apart(self):
        return self.apart

    @property
    def memory(self):
        return self.grants

    def run_until(self, cycle):
        self.threads.add(threading.get_ident())
        self.started.set()
        for other in self.waits_for:
            assert other.started.wait(10), f"{other.name} does not run meanwhile"
        super().run_until(cycle)


def network_of(*devices, threads=2, latency=100):
    network = Network(latency)
    network.threads = threads
    for number, device in enumerate(devices):
        network.attach(device, mac_of(number))
    return network


def live_threads():
    return {thread for thread in threading.enumerate() if thread.name == "amoeba-nic"}


# Which run at the same time


def test_two_compiled_nics_run_at_the_same_time():
    one, two = CompiledDevice("one"), CompiledDevice("two")
    one.waits_for, two.waits_for = [two], [one]
    network_of(one, two).step()
    assert len(one.threads) == len(two.threads) == 1
    assert one.threads != two.threads


def test_a_nic_that_needs_the_interpreter_runs_in_the_calling_thread_beside_a_compiled_one():
    model, compiled = CompiledDevice("model", apart=False), CompiledDevice("compiled")
    model.waits_for = [compiled]
    network_of(model, compiled).step()
    assert model.threads == {threading.get_ident()}
    assert compiled.threads.isdisjoint(model.threads)


def test_no_more_threads_run_than_the_network_was_told():
    devices = [CompiledDevice(f"device {number}") for number in range(5)]
    network_of(*devices, threads=3).step()
    assert len(set.union(*(device.threads for device in devices))) == 3
    assert [device.cycles for device in devices] == [100] * 5


@pytest.mark.parametrize("why", ["one thread", "one NIC", "no compiled one", "short steps", "memory is not known"])
def test_all_run_in_the_calling_thread_where_threads_are_not_worth_it_or_not_safe(why):
    devices = [CompiledDevice(f"device {number}", apart=why != "no compiled one") for number in range(2)]
    if why == "memory is not known":
        devices[1].grants = None
    if why == "one NIC":
        del devices[1]
    network = network_of(*devices, threads=1 + (why != "one thread"), latency=5 if why == "short steps" else 100)
    network.step()
    assert set.union(*(device.threads for device in devices)) == {threading.get_ident()}


@pytest.mark.parametrize(("first", "second"), [(True, True), (False, True), (True, False), (False, False)])
def test_nics_alternate_while_one_may_write_what_the_other_may_access(first, second):
    one, two = CompiledDevice("one"), CompiledDevice("two")
    network = network_of(one, two)
    one.grants.add(1000, 100, first)
    two.grants.add(1099, 50, second)
    network.step()
    assert (one.threads == two.threads) is (first or second)
    one.threads.clear(), two.threads.clear()
    two.grants.remove(1099, 50)
    network.step()
    assert one.threads != two.threads


def test_nics_whose_grants_translate_addresses_alternate():
    one, two = CompiledDevice("one"), CompiledDevice("two")
    network = network_of(one, two)
    one.grants.add(1000, 100, False, host_address=5000)
    network.step()
    assert one.threads == two.threads
    one.grants.remove(1000, 100)
    two.threads.clear()
    network.step()
    assert one.threads != two.threads


def test_a_nic_that_comes_later_is_looked_at_with_all_that_it_may_access():
    one, two, third = (CompiledDevice(name) for name in ("one", "two", "third"))
    network = network_of(one, two)
    one.grants.add(64, 64, True)
    third.grants.add(64, 8, False)
    network.step()
    assert one.threads != two.threads
    network.attach(third, mac_of(9))
    for device in (one, two, third):
        device.threads.clear()
    network.step()
    assert one.threads == two.threads == third.threads
    network.detach(third)
    one.threads.clear()
    network.step()
    assert one.threads != two.threads


accesses = st.tuples(st.integers(0, SPACE - 1), st.integers(1, 6), st.booleans())
changes = st.lists(st.tuples(st.integers(0, 2), st.one_of(accesses, st.integers(0, 50))), max_size=30)


@settings(max_examples=150, deadline=None)
@given(changes, st.integers(0, 10))
def test_whether_nics_can_meet_is_what_it_is_byte_by_byte(changes, before):
    grants = [MemoryGrants() for _ in range(3)]
    naive = [[] for _ in grants]
    meetings = None
    for number, (who, what) in enumerate(changes):
        if isinstance(what, tuple):
            grants[who].add(*what)
            naive[who].append(what)
        elif naive[who]:
            start, length, _ = naive[who][what % len(naive[who])]
            grants[who].remove(start, length)
            naive[who].remove(next(each for each in naive[who] if each[:2] == (start, length)))  # the oldest
        if number < before:
            continue
        meetings = meetings or Meetings(grants)
        assert meetings.of(grants)
        held = [{at for start, length, _ in each for at in range(start, start + length)} for each in naive]
        written = [
            {at for start, length, may_write in each if may_write for at in range(start, start + length)}
            for each in naive
        ]
        meet = any(written[a] & held[b] for a in range(3) for b in range(3) if a != b)
        assert meetings.possible() is meet


# What goes wrong


def test_of_those_that_fail_the_first_one_tells_and_all_have_ended_by_then():
    ended = []

    def task(name, error=None):
        def run():
            ended.append(name)
            if error is not None:
                raise error

        return run

    with pytest.raises(DeviceError, match="second"):
        Crew().run([task("first"), task("second", DeviceError("second")), task("third", DeviceError("third"))])
    assert sorted(ended) == ["first", "second", "third"]


def test_a_crew_works_on_after_an_error():
    crew, done = Crew(), []
    with pytest.raises(ZeroDivisionError):
        crew.run([lambda: 1 // 0, lambda: 1 // 0])
    crew.run([lambda: done.append(0), lambda: done.append(1)])
    assert sorted(done) == [0, 1]


def test_threads_end_with_their_network_and_hold_no_nic_meanwhile():
    one, two = CompiledDevice("one"), CompiledDevice("two")
    before = live_threads()
    network = network_of(one, two)
    network.step()
    (thread,) = live_threads() - before
    assert helping_threads() == len(live_threads())
    network.detach(two)
    gone = weakref.ref(two)
    del two
    gc.collect()
    assert gone() is None
    network.detach(one)
    del network, one
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


def test_a_child_that_was_forked_has_threads_of_its_own():
    crew = Crew()
    crew.run([lambda: None, lambda: None])
    child = os.fork()
    if not child:
        done = []
        crew.run([lambda: done.append(0), lambda: done.append(1)])
        os._exit(len(done))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


AT_EXIT = """
import atexit, sys
from amoeba_model.side_by_side import Crew

class Closed:
    def __del__(self):
        done = []
        crew.run([lambda: done.append("first"), lambda: done.append("second")])
        print(sorted(done), sys.is_finalizing())

crew = Crew()
crew.run([int, int])
if sys.argv[1] == "by atexit":
    atexit.register(Closed.__del__, None)
else:
    closed = Closed()
    closed.crew, closed.itself = crew, closed  # which the last collection finds
"""


@pytest.mark.parametrize("when", ["by atexit", "by the last collection"])
def test_what_is_closed_while_the_interpreter_ends_runs_its_nics(when):
    ended = subprocess.run(
        [sys.executable, "-c", AT_EXIT, when], capture_output=True, text=True, timeout=20, check=True
    )
    assert ended.stdout == f"['first', 'second'] {when != 'by atexit'}\n", ended.stderr
