"""fi_cq(3), TARGET COMPLETION SEMANTICS: what completions at the target say; and what of the page has no check."""

from amoeba.libfabric.objects.constants import OpFlags

from amoeba_tools.conformance.expectations import expect_equal
from amoeba_tools.conformance.pages.fi_cq import page
from amoeba_tools.conformance.pages.fi_rma import message, pattern
from amoeba_tools.conformance.pair import Pair

_LONG = 10_000
"""Bytes that no frame holds."""


@page(
    "TARGET COMPLETION SEMANTICS", "A completion at the target says that the data is there, whatever was asked for."
)
def target_completions_mean_that_the_data_is_there(pair: Pair) -> None:
    """Write long data at every completion level; read the memory after the target's completion."""
    for level in (OpFlags.FI_INJECT_COMPLETE, OpFlags.FI_TRANSMIT_COMPLETE, OpFlags.FI_DELIVERY_COMPLETE):
        memory = pair.memory(_LONG)
        write = message(memory, pattern(_LONG), data=1)
        pair.near.endpoint.writemsg(write, level | OpFlags.FI_REMOTE_CQ_DATA)
        pair.target.hear(1, pair.patience)
        expect_equal(f"memory, {level!r}", memory.load(), pattern(_LONG))
        pair.near.finish()


@page("TARGET COMPLETION SEMANTICS", "With ordered messages, a completion says that earlier data is there, too.")
def target_completions_cover_earlier_writes(pair: Pair) -> None:
    """Post a long write without data, then an empty one with data, both of the lowest completion level."""
    memory, other = pair.memory(_LONG), pair.memory(8)
    pair.near.endpoint.writemsg(message(memory, pattern(_LONG)), OpFlags.FI_INJECT_COMPLETE)
    note = message(other, b"", data=1)
    pair.near.endpoint.writemsg(note, OpFlags.FI_INJECT_COMPLETE | OpFlags.FI_REMOTE_CQ_DATA)
    pair.target.hear(1, pair.patience)
    expect_equal("memory at the target's completion", memory.load(), pattern(_LONG))
    pair.near.finish_all(2)


@page("fi_cq_readfrom", "Only the application inserts addresses into an address vector.", needs={"messages"})
def strangers_are_not_inserted(pair: Pair) -> None:
    """Send from a stranger: the vector is as it was."""
    near = pair.talker()
    own, known = pair.introduce(near.endpoint), len(pair.peers)
    near.endpoint.recv(bytearray(8))
    pair.near.endpoint.send(b"stranger", own)
    pair.near.finish()
    near.finish()
    expect_equal("addresses in the vector", len(pair.peers), known)


# Without a check of their own

page.leave("NAME, SYNOPSIS, ARGUMENTS", "Names of the calls and their arguments.", "These are names.")
page.leave(
    "size; NOTES",
    "A queue has a least size; one that is overrun gives what it has, then FI_EOVERRUN.",
    "Differs: queues have no size, and none is ever overrun ([libfabric.md](libfabric.md#fi_cq3)).",
)
page.leave(
    "flags: FI_AFFINITY; signaling_vector", "Where interrupts should go.", "A hint, and there is no such choice."
)
page.leave(
    "wait_obj",
    "The default is FI_WAIT_NONE.",
    "Differs: without an argument, a queue can be waited for: `fi_cq.sread_waits_for_a_completion`",
)
page.leave(
    "wait_obj: FI_WAIT_MUTEX_COND",
    "Another way to wait.",
    "Refused with FI_ENOSYS: Python waits for descriptors.",
)
page.leave(
    "wait_cond",
    "A condition need not be met when a wait ends.",
    "The page allows that; checks cover FI_CQ_COND_THRESHOLD.",
)
page.leave(
    "fi_close",
    "A queue with endpoints bound to it is not closed: FI_EBUSY.",
    "Differs: they are closed with it ([libfabric.md](libfabric.md)).",
)
page.leave(
    "fi_cq_readfrom, FI_EADDRNOTAVAIL",
    "With FI_SOURCE_ERR, an unknown source is an error with its address.",
    "FI_SOURCE_ERR is not offered.",
)
page.leave(
    "RETURN VALUES: fi_cq_sread",
    "A wait that was ended by fi_cq_signal returns FI_EAGAIN.",
    "Differs: FI_ECANCELED tells it from a timeout; `fi_cq.signal_ends_the_wait_of_another_thread`",
)
page.leave(
    "fi_cq_readerr: err_data",
    "Errors may have data of the provider's.",
    "They have none; of refused connections they do: `fi_cm.a_rejected_request_is_an_error`",
)
page.leave(
    "COMPLETION FLAGS: FI_SEND, FI_RECV, FI_MSG, FI_TAGGED, FI_MULTI_RECV",
    "Flags of message completions.",
    "`fi_msg.entries_of_every_format_have_their_fields`, `fi_msg.a_multi_receive_packs_messages_until_it_is_full`",
)
page.leave(
    "COMPLETION FLAGS: FI_REMOTE_READ, FI_REMOTE_WRITE",
    "Peers' operations without data may be reported.",
    "Counters tell of them, which is what FI_RMA_EVENT means here: `fi_endpoint.operations_of_peers_are_counted`",
)
page.leave(
    "COMPLETION FLAGS: FI_MORE, FI_CLAIM, FI_MULTICAST",
    "Flags of completions of buffered receives and multicasts.",
    "FI_BUFFERED_RECV and FI_MULTICAST are not offered.",
)
page.leave(
    "COMPLETION EVENT SEMANTICS",
    "Meaning of a completion at each level.",
    "`fi_rma.inject_complete_frees_the_source` and those behind it, `fi_rma.commit_complete_means_that_it_is_there`, "
    "`fi_msg.a_send_with_match_complete_waits_for_its_receive`",
)
page.leave(
    "TARGET COMPLETION SEMANTICS",
    "Visibility of device memory and persistent memory.",
    "FI_HMEM is not offered; of persistent memory: `fi_rma.commit_complete_means_that_it_is_there`",
)
page.leave(
    "NOTES",
    "A queue must be bound to an enabled endpoint before it is read.",
    "A duty of the application; the field is empty otherwise.",
)
page.leave("NOTES", "With FI_NOTIFY_FLAGS_ONLY, some flags may be missing.", "The mode is not asked for.")
page.leave("RETURN VALUES", "Numbers of entries, or a negative errno.", "[How C becomes Python](libfabric.md).")
