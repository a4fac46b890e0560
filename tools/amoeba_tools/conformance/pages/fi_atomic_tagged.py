"""fi_atomic(3): FI_TAGGED, atomics on the buffers of tagged receives."""

from typing import Any

import numpy as np
from amoeba.core.errno import Errno
from amoeba.libfabric.objects.constants import BindFlags, Caps, Datatype, Op, OpFlags, QueryFlags
from amoeba.libfabric.objects.operations.operations import NO_FLAGS
from amoeba.libfabric.objects.operations.vectors import AtomicMsg, RmaIoc
from amoeba.libfabric.objects.queues.completion import CqTaggedEntry

from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_atomic import page, words
from amoeba_tools.conformance.pair import Initiator, Pair, RemoteReceive

_NEEDS = {"tagged"}
_SECTION = "FLAGS: FI_TAGGED"
_TAG = 0xA70_0000_0000_0001
_TAGGED, _DATA = OpFlags.FI_TAGGED, OpFlags.FI_REMOTE_CQ_DATA
_MET = int(Caps.FI_TAGGED | Caps.FI_ATOMIC | Caps.FI_RECV)


def change(
    pair: Pair, *operands: int, op: Op = Op.FI_SUM, offset: int = 0, tag: int = _TAG, **fields: Any
) -> Initiator:
    """Post a tagged atomic on 64-bit words of the receive's buffer, from this byte on."""
    msg = AtomicMsg([words(*operands)], pair.peer, [RmaIoc(offset, len(operands), tag)], op, **fields)
    pair.near.endpoint.atomicmsg(msg, _TAGGED | (_DATA if "data" in fields else NO_FLAGS))
    return pair.near


def fetch(pair: Pair, operand: int | None, op: Op, *, offset: int = 0) -> int:
    """Return the result of a fetching tagged atomic on a word."""
    result = words(0)
    operands = [] if operand is None else [words(operand)]
    msg = AtomicMsg(operands, pair.peer, [RmaIoc(offset, 1, _TAG)], op, Datatype.FI_UINT64)
    pair.near.endpoint.fetch_atomicmsg(msg, [result], flags=_TAGGED)
    pair.near.finish()
    return int(result[0])


def receive(pair: Pair, *values: int, tag: int = _TAG, ignore: int = 0) -> RemoteReceive:
    """Post a receive of the target's into words with these values."""
    return pair.receive(words(*values).tobytes(), tag, ignore)


def content(what: RemoteReceive) -> list[int]:
    """Return the words of the receive's buffer."""
    return [int(value) for value in np.frombuffer(what.load(), np.uint64)]


@page(_SECTION, "The target of the operation is the buffer of a tagged receive, not a memory region.", needs=_NEEDS)
def a_tagged_atomic_changes_the_receives_buffer(pair: Pair) -> None:
    """Check that only the addressed words change, and check the entries of both sides."""
    near = pair.open(bind=BindFlags.FI_SELECTIVE_COMPLETION)
    box = receive(pair, 1, 2, 3, 4)
    entry = change(pair, 100, 200, offset=8, context="sum").finish()
    expect_equal("entry", entry[:3], ("sum", int(Caps.FI_ATOMIC | Caps.FI_WRITE), 16))
    heard = box.finish()
    expect_equal("flags, len, tag", (heard.flags, heard.len, heard.tag), (_MET, 16, _TAG))
    expect_equal("words", content(box), [1, 102, 203, 4])
    near.nothing_more()


@page(_SECTION, "The key is the tag of the receive that is wanted.", needs=_NEEDS)
def a_tagged_atomic_meets_the_oldest_receive_for_its_tag(pair: Pair) -> None:
    """Use two tags with two receives each; the receives end in the order of the atomics."""
    boxes = [receive(pair, 0, tag=tag) for tag in (1, 2, 1, 2)]
    for value, tag in ((10, 2), (20, 1), (30, 2)):
        change(pair, value, tag=tag).finish()
    ended = [entry.handle for entry in pair.target.hear(3, pair.patience)]
    expect_equal("receives", ended, [boxes[index].handle for index in (1, 0, 3)])
    expect_equal("words", [content(box) for box in boxes], [[20], [10], [0], [30]])
    change(pair, 40, tag=1).finish()
    boxes[2].finish()


@page(_SECTION, "Bits that the receive ignores may differ.", needs=_NEEDS)
def a_tagged_atomic_meets_a_receive_with_a_mask(pair: Pair) -> None:
    """Check that the entry has the tag of the message."""
    box = receive(pair, 5, tag=0x1200, ignore=0xFF)
    change(pair, 1, tag=0x12A5).finish()
    expect_equal("tag", box.finish().tag, 0x12A5)
    expect_equal("words", content(box), [6])


@page(_SECTION, "Fetching operations bring what the buffer held.", needs=_NEEDS)
def fetching_tagged_atomics_bring_the_initial_value(pair: Pair) -> None:
    """Post one after the other, with a receive for each."""
    for operand, op, after in (
        (10, Op.FI_SUM, 16),
        (3, Op.FI_ATOMIC_WRITE, 3),
        (None, Op.FI_ATOMIC_READ, 6),
        (9, Op.FI_MAX, 9),
    ):
        box = receive(pair, 5, 6)
        expect_equal(f"{op.name}, result", fetch(pair, operand, op, offset=8), 6)
        expect_equal("flags", box.finish().flags, _MET)
        expect_equal(f"{op.name}, words", content(box), [5, after])


@page(_SECTION, "Without such a receive it fails with FI_ENORX, and does not wait for one.", needs=_NEEDS)
def a_tagged_atomic_without_a_receive_fails(pair: Pair) -> None:
    """Post receives for another tag, and for none, which must stay; so must one that is posted later."""
    others = [receive(pair, 7, tag=_TAG + 1), pair.receive(8)]
    entry = change(pair, 1, context="early").failure(Errno.FI_ENORX)
    expect_equal("context, flags", (entry.op_context, entry.flags), ("early", int(Caps.FI_ATOMIC | Caps.FI_WRITE)))
    late = receive(pair, 7)
    expect_equal("words", content(late), [7])
    change(pair, 1).finish()
    late.finish()
    expect_equal("words", content(late), [8])
    change(pair, 1, tag=_TAG + 1).finish()
    others[0].finish()
    pair.near.endpoint.inject(b"message!", pair.peer)
    others[1].finish()


@page(_SECTION, "The atomic stays within the buffer of the receive.", needs=_NEEDS)
def a_tagged_atomic_beyond_the_buffer_fails(pair: Pair) -> None:
    """Post behind the buffer's end, across it, and so far behind that the sum wraps; the receive is still there."""
    box = receive(pair, 1, 2)
    for offset, count in ((8, 2), (16, 1), (9, 1), (2**64 - 8, 1), (2**63, 1)):
        change(pair, *[255] * count, offset=offset).failure(Errno.FI_EINVAL)
    expect_equal("words", content(box), [1, 2])
    change(pair, 5, offset=8).finish()
    box.finish()
    expect_equal("words", content(box), [1, 7])


@page("FLAGS: FI_REMOTE_CQ_DATA", "Data of a tagged atomic is in the entry of the receive.", needs=_NEEDS)
def a_tagged_atomic_brings_data(pair: Pair) -> None:
    """Expect all 64 bits."""
    box = receive(pair, 1)
    change(pair, 1, data=2**64 - 2).finish()
    heard = box.finish()
    expect_equal("flags and data", (heard.flags, heard.data), (_MET | _DATA, 2**64 - 2))


@page(_SECTION, "This side's receives are a target, too.", needs=_NEEDS)
def a_receive_of_the_initiators_is_changed(pair: Pair) -> None:
    """Use another endpoint of the initiator, and a scattered buffer."""
    near = pair.talker()
    own, parts = pair.introduce(near.endpoint), [words(1), words(2, 3)]
    near.endpoint.trecvv(parts, _TAG, context="box")
    near.nothing_more()
    pair.near.endpoint.atomicmsg(AtomicMsg([words(10, 20)], own, [RmaIoc(0, 2, _TAG)], Op.FI_SUM), _TAGGED)
    pair.near.finish()
    expect_equal("entry", near.finish(), CqTaggedEntry("box", _MET, 16, 0, 0, _TAG))
    expect_equal("words", [[int(value) for value in part] for part in parts], [[11], [22, 3]])


@page("fi_query_atomic", "With FI_TAGGED it says what is supported for tagged receives.", needs=_NEEDS)
def tagged_atomics_are_asked_for(pair: Pair) -> None:
    """Find the fetching sum supported; operations that the query does not support are refused when called."""
    for flags in (QueryFlags.FI_TAGGED, QueryFlags.FI_TAGGED | QueryFlags.FI_FETCH_ATOMIC):
        attributes = pair.domain.query_atomic(Datatype.FI_UINT64, Op.FI_SUM, flags)
        expect_equal("size", attributes.size, 8)
        expect(attributes.count >= 1, f"expected one element at least, got {attributes.count}")
    with expect_error("a comparing tagged atomic", Errno.FI_EOPNOTSUPP):
        pair.domain.query_atomic(Datatype.FI_UINT64, Op.FI_CSWAP, QueryFlags.FI_TAGGED | QueryFlags.FI_COMPARE_ATOMIC)


@page("NOTES", "The valid call returns the maximum number of elements; that number is accepted.", needs=_NEEDS)
def as_many_elements_as_are_told_are_changed(pair: Pair) -> None:
    """Post as many elements as the valid call allows, if the count is practicable; one more is refused."""
    most = pair.domain.query_atomic(Datatype.FI_UINT64, Op.FI_SUM, QueryFlags.FI_TAGGED).count
    box = receive(pair, *[1] * most)
    with expect_error(f"{most + 1} elements", Errno.FI_EMSGSIZE):
        change(pair, *[5] * (most + 1))
    change(pair, *range(most)).finish()
    box.finish()
    expect_equal("words", content(box), [index + 1 for index in range(most)])
