"""Where packet delivery contexts begin: numbers that nobody can tell from others, and no target takes for old.

And their flags.

Covers ``nic/peer_table.py``.
"""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
from amoeba.nic.address import EndpointAddress
from amoeba.nic.peer_table import PeerTable
from amoeba_model.nic.pdc import LATE_LIMIT
from amoeba_model.registers import PeerFlags

ADDRESS = EndpointAddress(mac=bytes(5) + b"\2", ip=0x0A000002, job_id=1, pid_on_fep=0, resource_index=0)
PSNS = 1 << 32
MAX_PACKETS = 1 << 31
"""Of one epoch."""


class Written:
    """Registers that remember the first psns written."""

    def __init__(self, epoch, entries=4):
        self.device = SimpleNamespace(new_epoch=lambda: epoch)
        self.parameters = SimpleNamespace(peers=entries, contexts=1, has_initiator=True)
        self.psns, self.key, self.flags = [], {}, []

    def write(self, block, name, value, index=0):
        if name == "initial_psn":
            self.psns.append(value)
        if name == "flags":
            self.flags.append(value)
        if name == "psn_key":
            assert index not in self.key, "the key was written before"
            self.key[index] = value

    def write_wide(self, block, name, value):
        pass


def first_psns(epoch, connections=500):
    registers = Written(epoch)
    table = PeerTable(registers)
    peer = table.open(0, ADDRESS, 0)
    for _ in range(connections - 1):
        table.reopen(peer, 0, ADDRESS, 0)
    return registers.psns


@pytest.mark.parametrize("epoch", [None, 0, 7])
def test_no_connection_epoch_of_an_entry_is_taken_for_an_earlier_one(epoch):
    psns = first_psns(epoch)
    for last, psn in pairwise(psns):
        for sent in (0, 1, 1 << 16, MAX_PACKETS - 1):  # the target expects this packet of the last one
            assert not 0 < (last + sent - psn) % PSNS <= LATE_LIMIT, (last, psn, sent)


def test_a_simulation_repeats_its_psns_and_reopened_nics_have_new_ones():
    assert first_psns(3) == first_psns(3)
    assert not set(first_psns(3)) & set(first_psns(4))


def test_otherwise_nobody_can_tell_the_next_psn():
    once, again = first_psns(None), first_psns(None)
    assert not set(once) & set(again)
    steps = {(psn - last) % PSNS for last, psn in pairwise(once)}
    assert len(steps) == len(once) - 1


def keys(epoch):
    """The keys of two NICs, as numbers."""
    found = []
    for _ in range(2):
        registers = Written(epoch)
        table = PeerTable(registers)
        assert registers.key == {}, "a NIC that opens no PDC may not be on its network yet"
        peer = table.open(0, ADDRESS, 0)
        table.reopen(peer, 0, ADDRESS, 0)
        assert sorted(registers.key) == [0, 1, 2]
        found.append(registers.key[0] << 64 | registers.key[1] << 32 | registers.key[2])
    return found


def test_the_nic_gets_a_key_before_its_first_pdc_and_every_nic_another():
    once, again = keys(None)
    assert once != again
    assert all(key.bit_length() > 64 for key in (once, again)), "one in 2**32 keys is as short"


def test_the_key_of_a_simulated_nic_repeats_itself():
    once, again = keys(3)
    assert once == again != keys(4)[0]


def test_entries_begin_apart_from_each_other():
    registers = Written(None)
    table = PeerTable(registers)
    for _ in range(4):
        table.open(0, ADDRESS, 0)
    assert len({psn >> 16 for psn in registers.psns}) == 4


def test_only_an_amoeba_takes_the_whole_window():
    registers = Written(None)
    table = PeerTable(registers)
    for relative in (False, True):
        for foreign in (False, True):
            table.open(0, replace(ADDRESS, relative=relative, foreign=foreign), 0)
    valid, relative, whole = PeerFlags.VALID, PeerFlags.RELATIVE, PeerFlags.WHOLE_WINDOW
    assert registers.flags == [valid | whole, valid, valid | relative | whole, valid | relative]
