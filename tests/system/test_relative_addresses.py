"""Relative and absolute addressing: a process id counts within its job, or within its NIC."""

from collections.abc import Callable
from typing import Any

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.registers import ContextControl, Counter, PeerFlags
from amoeba_model.wire.uet import RequestOpcode, ReturnCode, SesFlags

from tests.support.pairs import PAIRS
from tests.support.raw_driver import Pair
from tests.support.stranger import WHOLE, Stranger
from tests.support.uet_dissector import CONTROL, ROD_REQUEST, dissect

MakePair = Callable[..., Pair]
KINDS = pytest.mark.parametrize("make_pair", PAIRS[:2], indirect=True)
"""Each kind of device with its like."""
OK, RELATIVE = ReturnCode.OK, SesFlags.RELATIVE


def let_target_be_relative(pair: Pair, relative: bool) -> None:
    control = ContextControl.ENABLE | (ContextControl.RELATIVE if relative else 0)
    pair.target.set("contexts", 0, control=control)


@KINDS
def test_a_context_takes_requests_that_are_addressed_as_it_is(make_pair: MakePair) -> None:
    pair = make_pair()
    region = pair.memory(64)
    stranger = Stranger(pair)
    write: dict[str, Any] = {"opcode": RequestOpcode.WRITE, "request_length": 8, "buffer_offset": region.address}
    for relative in (False, True, False):
        let_target_be_relative(pair, relative)
        for flag in (False, True):
            region[0] = bytes(8)
            code = stranger.ask(b"\1" * 8, flags=WHOLE | (RELATIVE if flag else 0), **write).header.return_code
            assert code == (OK if flag == relative else ReturnCode.BAD_PID)
            assert region[0:8] == (b"\1" if flag == relative else b"\0") * 8
    assert pair.target.counter(Counter.REFUSED_REQUESTS) == 3


@KINDS
def test_job_and_process_are_checked_with_relative_addresses_too(make_pair: MakePair) -> None:
    pair = make_pair()
    pair.memory(64)
    let_target_be_relative(pair, True)
    stranger = Stranger(pair)
    job, pid = pair.remote.job_id, pair.remote.pid_on_fep
    for fields, code in (
        ({"job_id": job ^ 1, "pid_on_fep": pid ^ 1}, ReturnCode.BAD_JOB_ID),
        ({"pid_on_fep": pid ^ 1}, ReturnCode.BAD_PID),
        ({"memory_key": 5}, ReturnCode.BAD_MKEY),
        ({"opcode": RequestOpcode.NO_OP, "pid_on_fep": pid ^ 1}, OK),  # nobody is addressed
    ):
        header = {"flags": WHOLE | RELATIVE, **fields}
        assert stranger.ask(**header).header.return_code == code


@KINDS
@pytest.mark.parametrize("relative", [False, True])
def test_requests_to_a_peer_are_addressed_as_its_entry_says(make_pair: MakePair, relative: bool) -> None:
    pair = make_pair()
    region, source = pair.memory(8192), pair.initiator.buffer(8192)
    pair.network.recording = True
    let_target_be_relative(pair, relative)
    flags = PeerFlags.VALID | (PeerFlags.RELATIVE if relative else 0)
    pair.initiator.peer(0, pair.remote, initial_psn=0x9000, flags=flags)
    there = {"remote_address": region.address, "remote_key": Pair.KEY, "length": 5000}
    completion = DescriptorFlags.COMPLETION
    written = pair.local.execute(opcode=DescriptorOpcode.WRITE, flags=completion, local=source.address, **there)
    assert written["status"] == OK
    unreadable = pair.local.execute(opcode=DescriptorOpcode.WRITE, flags=completion, local=1 << 50, **there)
    assert unreadable["status"] == ReturnCode.LOCAL_DMA_FAULT
    assert pair.local.execute(opcode=DescriptorOpcode.CLOSE, flags=completion)["status"] == OK
    frames = [dissect(frame.data) for _, frame in pair.network.log]
    requests = [fields["flags"] for fields in frames if fields["type"] == ROD_REQUEST]
    assert len(requests) >= 3
    assert {bool(flags & RELATIVE) for flags in requests if isinstance(flags, int)} == {relative}
    assert CONTROL in {fields["type"] for fields in frames}
