"""fi_av(3): address vectors."""

from collections.abc import Sequence

from amoeba.core.errno import Errno
from amoeba.libfabric.objects.address_vector import AddressVector
from amoeba.libfabric.objects.constants import FI_ADDR_NOTAVAIL, AvFlags, AvType, EqEvent
from amoeba.libfabric.objects.queues.event_queue import EqEntry, EventQueue

from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_rma import pattern
from amoeba_tools.conformance.pair import Pair, RemoteMemory
from amoeba_tools.conformance.registry import Page

page = Page("fi_av", "1.17", needs={"rma"})

_WRONG = b"no address of this format"


def vector(pair: Pair, av_type: AvType = AvType.FI_AV_TABLE, flags: AvFlags | None = None) -> AddressVector:
    return pair.keep(pair.domain.av_open(av_type) if flags is None else pair.domain.av_open(av_type, flags))


def names(pair: Pair) -> tuple[bytes, bytes]:
    """Return two addresses, of the target's two endpoints."""
    return pair.target.name(0), pair.target.name(1)


def reaches(pair: Pair, peers: AddressVector, number: int, memory: RemoteMemory) -> None:
    """See that an endpoint bound to this vector reaches the memory by this number."""
    near = pair.open(peers=peers)
    near.endpoint.write(pattern(memory.size), number, memory.address, memory.key)
    near.finish()
    expect_equal("memory", memory.load(), pattern(memory.size))
    near.endpoint.close()


# Inserting


@page("type: FI_AV_TABLE", "Addresses are numbered from 0, in order of insertion, over all calls.")
def numbers_of_a_table_count_from_zero(pair: Pair) -> None:
    """Insert one by one, and as vectors."""
    peers, (one, two) = vector(pair), names(pair)
    numbers = [peers.insert(one), *peers.insert_all([two, pair.near.endpoint.getname()]).fi_addr]
    expect_equal("numbers", numbers, [0, 1, 2])


@page("fi_av_insert", "An address takes the lowest unused place of a table.")
def the_lowest_unused_number_is_given_next(pair: Pair) -> None:
    """Insert after the first and the third have been removed."""
    peers, (one, two) = vector(pair), names(pair)
    for address in (one, two, pair.near.endpoint.getname()):
        peers.insert(address)
    peers.remove(0, 2)
    expect_equal("numbers", [peers.insert(one), peers.insert(pair.near.endpoint.getname())], [0, 2])


@page("type: FI_AV_MAP", "The numbers that insertion returns are those to be used, whatever they are.")
def numbers_of_a_map_reach_their_peers(pair: Pair) -> None:
    """Use the second of two addresses."""
    peers = vector(pair, AvType.FI_AV_MAP)
    first, second = peers.insert_all(names(pair)).fi_addr
    expect(first != second, f"expected two numbers, got {first} twice")
    reaches(pair, peers, second, pair.memory(8, domain=1))


@page("type: FI_AV_UNSPEC", "The provider chooses a type, and says which.")
def an_unspecified_type_is_chosen(pair: Pair) -> None:
    """Use a vector of the chosen type."""
    peers = vector(pair, AvType.FI_AV_UNSPEC)
    expect(peers.type in (AvType.FI_AV_TABLE, AvType.FI_AV_MAP), f"expected a type, got {peers.type!r}")
    reaches(pair, peers, peers.insert(pair.target.name(0)), pair.memory(8))


@page("fi_av_insert", "The call inserts zero or more addresses, and returns their number.")
def insertion_returns_how_many(pair: Pair) -> None:
    """Insert two addresses, then none."""
    peers = vector(pair)
    inserted = peers.insert_all(names(pair))
    expect_equal("count and numbers", (inserted.count, inserted.fi_addr), (2, (0, 1)))
    nothing = peers.insert_all([])
    expect_equal("count and numbers of none", (nothing.count, nothing.fi_addr), (0, ()))


@page("RETURN VALUES", "Addresses that are not inserted get FI_ADDR_NOTAVAIL, and are not counted.")
def addresses_that_fail_have_no_number(pair: Pair) -> None:
    """Insert three addresses, the second of which is wrong; the others are inserted."""
    peers, (one, two) = vector(pair), names(pair)
    inserted = peers.insert_all([one, _WRONG, two])
    expect_equal("count", inserted.count, 2)
    expect_equal("number of the wrong one", inserted.fi_addr[1], FI_ADDR_NOTAVAIL)
    expect_equal("the others", [peers.lookup(inserted.fi_addr[index]) for index in (0, 2)], [one, two])


@page("flags: FI_SYNC_ERR", "One error number per address is returned, 0 for those that were inserted.")
def sync_err_returns_an_error_per_address(pair: Pair) -> None:
    """Insert three addresses, the first and last of which are wrong."""
    inserted = vector(pair).insert_all([_WRONG, pair.target.name(0), b""], flags=AvFlags.FI_SYNC_ERR)
    expect_equal("errors", inserted.errors, (Errno.FI_EINVAL, Errno.FI_SUCCESS, Errno.FI_EINVAL))
    expect_equal("count", inserted.count, 1)


@page("flags: FI_MORE", "A hint that insertions follow; the addresses are inserted all the same.")
def more_is_a_hint(pair: Pair) -> None:
    """Make two calls, of which the first has the flag."""
    peers, (one, two) = vector(pair), names(pair)
    numbers = peers.insert_all([one], flags=AvFlags.FI_MORE).fi_addr + peers.insert_all([two]).fi_addr
    expect_equal("addresses", [peers.lookup(number) for number in numbers], [one, two])


@page("fi_av_insert", "Other flags are refused.")
def unknown_flags_are_refused(pair: Pair) -> None:
    """Pass a flag of fi_av_open."""
    peers = vector(pair)
    with expect_error("FI_EVENT", Errno.FI_EBADFLAGS, Errno.FI_EINVAL):
        peers.insert_all([pair.target.name(0)], flags=AvFlags.FI_EVENT)
    expect_equal("addresses", len(peers), 0)


@page("DESCRIPTION", "A vector may be bound to many endpoints; an address has the same number for all.")
def endpoints_share_a_vector(pair: Pair) -> None:
    """Enable one before the insertion, one after it."""
    peers, memory = vector(pair), pair.memory(16)
    early = pair.open(peers=peers)
    number = peers.insert(pair.target.name(0))
    late = pair.open(peers=peers)
    for index, near in enumerate((early, late)):
        near.endpoint.write(pattern(8, index), number, memory.address + 8 * index, memory.key)
        near.finish()
    expect_equal("memory", memory.load(), pattern(8, 0) + pattern(8, 1))


# Looking up and removing


@page("fi_av_lookup", "The call returns the inserted address.")
def lookup_returns_the_address(pair: Pair) -> None:
    """Expect the format in which it was inserted."""
    peers, addresses = vector(pair), names(pair)
    numbers = peers.insert_all(addresses).fi_addr
    expect_equal("addresses", tuple(peers.lookup(number) for number in numbers), addresses)


@page("fi_av_lookup", "Numbers that were not given out have no address.")
def lookup_of_unknown_numbers_is_refused(pair: Pair) -> None:
    """Look up before any insertion, and FI_ADDR_NOTAVAIL."""
    peers = vector(pair)
    for number in (0, 5, FI_ADDR_NOTAVAIL):
        with expect_error(f"number {number}", Errno.FI_EINVAL):
            peers.lookup(number)


@page("fi_av_straddr", "The call makes a printable string of an address, which need not have been inserted.")
def addresses_are_printable(pair: Pair) -> None:
    """Check that two addresses read differently and that an invalid address is refused."""
    peers, (one, two) = vector(pair), names(pair)
    texts = [peers.straddr(one), peers.straddr(two)]
    expect(all(text and text.isprintable() for text in texts), f"expected printable strings, got {texts}")
    expect(texts[0] != texts[1], f"expected two strings, got {texts[0]!r} twice")
    with expect_error("an invalid address", Errno.FI_EINVAL):
        peers.straddr(_WRONG)


@page("fi_av_remove", "A number is invalid when its address has been removed.")
def removed_addresses_are_gone(pair: Pair) -> None:
    """Check that they are neither looked up nor sent to; the others stay."""
    peers, memory = vector(pair), pair.memory(8)
    first, second = peers.insert_all(names(pair)).fi_addr
    near = pair.open(peers=peers)
    near.endpoint.write(pattern(8), first, memory.address, memory.key)
    near.finish()
    peers.remove(first)
    with expect_error("lookup", Errno.FI_EINVAL):
        peers.lookup(first)
    with expect_error("a write", Errno.FI_EINVAL, Errno.FI_EADDRNOTAVAIL):
        near.endpoint.write(bytes(8), first, memory.address, memory.key)
    near.nothing_more()
    expect_equal("the other address", peers.lookup(second), pair.target.name(1))
    expect_equal("memory", memory.load(), pattern(8))


@page("NOTES", "An address may be inserted again after it has been removed.")
def addresses_can_be_inserted_again(pair: Pair) -> None:
    """Insert three times over, with traffic in between, on an endpoint that stays."""
    peers = vector(pair)
    near = pair.open(peers=peers)
    for index in range(3):
        memory, number = pair.memory(8), peers.insert(pair.target.name(0))
        near.endpoint.write(pattern(8, index), number, memory.address, memory.key)
        near.finish()
        expect_equal(f"memory of round {index}", memory.load(), pattern(8, index))
        peers.remove(number)


@page("fi_av_remove", "The call removes a set of addresses.")
def many_addresses_are_removed_at_once(pair: Pair) -> None:
    """Remove both; the call refuses a set with an unknown one, and removes nothing of it."""
    peers = vector(pair)
    numbers = peers.insert_all(names(pair)).fi_addr
    with expect_error("a set with an unknown number", Errno.FI_EINVAL):
        peers.remove(numbers[0], 77)
    expect_equal("addresses", len(peers), 2)
    peers.remove(*numbers)
    expect_equal("addresses", len(peers), 0)


@page("fi_close", "Closing a vector cleans up what is left in it.")
def a_vector_may_be_closed_with_addresses(pair: Pair) -> None:
    """Close more vectors than the NIC has places for peers; each is used."""
    memory = pair.memory(8)
    for _ in range(12):
        peers = pair.domain.av_open()
        reaches(pair, peers, peers.insert(pair.target.name(0)), memory)
        peers.close()


# Events


def _with_events(pair: Pair) -> tuple[AddressVector, EventQueue]:
    peers, queue = vector(pair, flags=AvFlags.FI_EVENT), pair.keep(pair.fabric.eq_open())
    peers.bind(queue)
    return peers, queue


def _events(queue: EventQueue, errors: int) -> Sequence[object]:
    """So many error entries, then one event; the queue is empty then."""
    entries: list[object] = []
    for _ in range(errors):
        with expect_error("a read while there is an error", Errno.FI_EAVAIL):
            queue.read()
        entries.append(queue.readerr())
    entries.append(queue.read())
    expect_equal("further events", queue.read(), None)
    return entries


@page("flags: FI_EVENT", "Insertions before an event queue is bound fail with FI_ENOEQ.")
def insertions_without_an_event_queue_are_refused(pair: Pair) -> None:
    """Check that nothing is inserted."""
    peers = vector(pair, flags=AvFlags.FI_EVENT)
    with expect_error("an insertion", Errno.FI_ENOEQ):
        peers.insert_all([pair.target.name(0)])
    expect_equal("addresses", len(peers), 0)


@page("flags: FI_EVENT", "One event reports the end, with the call's context, and the number inserted as data.")
def the_end_of_an_insertion_is_an_event(pair: Pair) -> None:
    """Insert two addresses, which can then be used."""
    peers, queue = _with_events(pair)
    inserted = peers.insert_all(names(pair), context="mine")
    expect_equal("events", _events(queue, 0), [EqEntry(EqEvent.FI_AV_COMPLETE, peers, "mine", 2)])
    reaches(pair, peers, inserted.fi_addr[0], pair.memory(8))


@page("RETURN VALUES", "An insertion that reports by events returns 0.")
def insertions_with_events_return_zero(pair: Pair) -> None:
    """Insert two addresses."""
    peers, queue = _with_events(pair)
    expect_equal("count", peers.insert_all(names(pair)).count, 0)
    _events(queue, 0)


@page("flags: FI_EVENT", "Before it there is an error entry per address that failed, its index as data.")
def addresses_that_fail_are_error_entries(pair: Pair) -> None:
    """Insert three addresses, the first and third of which are wrong."""
    peers, queue = _with_events(pair)
    peers.insert_all([_WRONG, pair.target.name(0), b""], context="mine")
    *errors, end = _events(queue, 2)
    for index, error in zip((0, 2), errors, strict=True):
        told = error.fid, error.context, error.data, error.err  # type: ignore[attr-defined]
        expect_equal("error entry", told, (peers, "mine", index, Errno.FI_EINVAL))
    expect_equal("event", end, EqEntry(EqEvent.FI_AV_COMPLETE, peers, "mine", 1))


@page("flags: FI_EVENT", "The event comes even if all addresses fail.")
def an_insertion_that_fails_altogether_has_an_event(pair: Pair) -> None:
    """Expect an event with data 0."""
    peers, queue = _with_events(pair)
    peers.insert_all([_WRONG], context="mine")
    *_, end = _events(queue, 1)
    expect_equal("event", end, EqEntry(EqEvent.FI_AV_COMPLETE, peers, "mine", 0))


@page("fi_av_bind", "An event queue is bound to a vector opened with FI_EVENT.")
def other_vectors_take_no_event_queue(pair: Pair) -> None:
    """Bind to either other type, which is refused; so is a second queue."""
    queue = pair.keep(pair.fabric.eq_open())
    with expect_error("a queue for a vector without FI_EVENT", Errno.FI_EINVAL, Errno.FI_EBADFLAGS):
        vector(pair).bind(queue)
    peers, _ = _with_events(pair)
    with expect_error("a second queue", Errno.FI_EINVAL, Errno.FI_EBUSY):
        peers.bind(queue)


@page("fi_close", "Events about a vector are left where they are when it is closed.")
def events_outlast_the_vector(pair: Pair) -> None:
    """Insert an address, close the vector, then read the event."""
    events = pair.keep(pair.fabric.eq_open())
    peers = vector(pair, flags=AvFlags.FI_EVENT)
    peers.bind(events)
    peers.insert_all([names(pair)[0]], context="late")
    peers.close()
    event = events.sread(pair.patience)
    expect(isinstance(event, EqEntry), f"expected an event, got {event}")
    if isinstance(event, EqEntry):
        expect_equal("event, context, data", event[:1] + event[2:], (EqEvent.FI_AV_COMPLETE, "late", 1))


# Without a check of their own

page.leave("NAME, SYNOPSIS, ARGUMENTS", "Names of the calls and their arguments.", "These are names.")
page.leave("count, ep_per_node", "How many addresses are to be expected.", "Hints: a vector takes any number.")
page.leave(
    "name, map_addr; flags: FI_READ",
    "Processes may share a vector by its name.",
    "Differs: vectors are not shared between processes ([libfabric.md](libfabric.md#fi_av3)).",
)
page.leave(
    "flags: FI_SYMMETRIC",
    "Consecutive addresses may be stored compactly.",
    "Differs: not offered ([libfabric.md](libfabric.md#fi_av3)).",
)
page.leave(
    "flags: FI_EVENT",
    "Insertions may end in another order than they were begun.",
    "The page allows that; here they end at once.",
)
page.leave(
    "fi_close",
    "A vector with endpoints bound to it is not closed: FI_EBUSY.",
    "Differs: they are closed with it ([libfabric.md](libfabric.md)).",
)
page.leave(
    "flags: FI_AV_USER_ID; USER IDENTIFIERS FOR ADDRESSES",
    "Completions may tell a number of the application's.",
    "FI_AV_USER_ID is not offered.",
)
page.leave(
    "fi_av_remove",
    "The outcome of outstanding operations to the address is undefined.",
    "The page requires nothing; here the call waits, or returns FI_EBUSY.",
)
page.leave(
    "fi_av_lookup, fi_av_straddr",
    "Addresses that do not fit into a buffer are truncated.",
    "Addresses and strings are results, of their own size.",
)
page.leave(
    "fi_rx_addr",
    "The call makes the address of a receive context from a number.",
    "The receive contexts of scalable endpoints: [libfabric.md](libfabric.md#several-contexts-and-shared-ones).",
)
page.leave("NOTES", "An address is inserted once.", "A duty of the application.")
