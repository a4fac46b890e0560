"""fi_cm(3): connections, made and ended between endpoints of the initiator's."""

from amoeba import fi
from amoeba.core.errno import Errno
from amoeba.libfabric.objects.connections import ConnectionRequest
from amoeba.libfabric.objects.constants import FI_ADDR_UNSPEC, Control, EndpointOption, EqEvent, OptionLevel

from amoeba_tools.conformance.connected import Connected, Parties
from amoeba_tools.conformance.expectations import expect, expect_equal, expect_error
from amoeba_tools.conformance.pages.fi_rma import pattern
from amoeba_tools.conformance.pair import CONNECTED, Pair
from amoeba_tools.conformance.registry import Page

page = Page("fi_cm", "1.17", needs={"connected", "messages"})

_CM_DATA_SIZE = OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_CM_DATA_SIZE


def ask(parties: Parties, param: bytes = b"") -> tuple[Connected, Connected]:
    """Return an endpoint that has requested a connection, and one that can accept the request."""
    calling = parties.endpoint()
    calling.endpoint.connect(parties.passive.getname(), param)
    return calling, parties.endpoint(parties.event(EqEvent.FI_CONNREQ).info or CONNECTED)


def refuse(parties: Parties, param: bytes = b"") -> None:
    """Reject the next request."""
    info = parties.event(EqEvent.FI_CONNREQ).info
    assert info is not None
    assert isinstance(info.handle, ConnectionRequest)
    parties.passive.reject(info.handle, param)


def told(parties: Parties, kind: EqEvent, count: int = 1) -> set[object]:
    """Return the endpoints of the next events, all of this kind."""
    return {parties.event(kind).fid for _ in range(count)}


# How a connection is made


@page("fi_listen", "Requests to a listening endpoint are reported by its event queue as FI_CONNREQ.")
def requests_are_events(pair: Pair) -> None:
    """Check two requests: their destination, data and source."""
    parties = Parties(pair)
    for param in (b"first", b""):
        calling = parties.endpoint()
        calling.endpoint.connect(parties.passive.getname(), param)
        event = parties.event(EqEvent.FI_CONNREQ)
        expect_equal("fid and data", (event.fid, event.data), (parties.passive, param))
        expect(event.info is not None, "expected the request's info")
        if event.info is not None:
            expect_equal("dest_addr", event.info.dest_addr, calling.endpoint.getname())


@page("fi_listen", "The number of requests that wait is limited by the backlog, which fi_control adjusts.")
def requests_beyond_the_backlog_are_refused(pair: Pair) -> None:
    """Send two requests to a backlog of one: the request beyond fails, and the waiting one can be accepted."""
    parties = Parties(pair)
    fi.fi_control(parties.passive, Control.FI_BACKLOG, 1)
    calling = parties.endpoint()
    calling.endpoint.connect(parties.passive.getname())
    event = parties.event(EqEvent.FI_CONNREQ)
    with pair.part():
        second = parties.endpoint()
        second.endpoint.connect(parties.passive.getname())
        failure = parties.failure()
        expect_equal("fid and err", (failure.fid, failure.err), (second.endpoint, Errno.FI_ECONNREFUSED))
    answering = parties.endpoint(event.info or CONNECTED)
    answering.endpoint.accept()
    expect_equal("connected", told(parties, EqEvent.FI_CONNECTED, 2), {calling.endpoint, answering.endpoint})


@page("fi_accept", "Both sides get FI_CONNECTED; its fid is the endpoint that connects, or that accepts.")
def both_sides_are_told_of_the_connection(pair: Pair) -> None:
    """Check that the events name the two endpoints, not the passive one, and that none comes before the accept."""
    parties = Parties(pair)
    calling, answering = ask(parties)
    expect_equal("an event before accept", parties.events.read(), None)
    answering.endpoint.accept()
    expect_equal("connected", told(parties, EqEvent.FI_CONNECTED, 2), {calling.endpoint, answering.endpoint})


@page("fi_accept", "The accepting endpoint is opened with the info of the request.")
def accepting_without_a_request_is_refused(pair: Pair) -> None:
    """Try an endpoint of other info, and a second endpoint for an answered request."""
    parties = Parties(pair)
    with pair.part(), expect_error("accept without a request", Errno.FI_EOPBADSTATE, Errno.FI_EINVAL):
        parties.endpoint().endpoint.accept()
    calling = parties.endpoint()
    calling.endpoint.connect(parties.passive.getname())
    info = parties.event(EqEvent.FI_CONNREQ).info or CONNECTED
    answering, late = parties.endpoint(info), parties.endpoint(info)
    answering.endpoint.accept()
    with expect_error("accept of a request that was answered", Errno.FI_EINVAL):
        late.endpoint.accept()
    expect_equal("connected", told(parties, EqEvent.FI_CONNECTED, 2), {calling.endpoint, answering.endpoint})


@page("fi_reject", "A rejected request is an error event, which says why.")
def a_rejected_request_is_an_error(pair: Pair) -> None:
    """Expect the data that was given to fi_reject."""
    parties = Parties(pair)
    calling = parties.endpoint()
    calling.endpoint.connect(parties.passive.getname(), b"please")
    refuse(parties, b"not today")
    failure = parties.failure()
    fields = (failure.fid, failure.err, failure.err_data)
    expect_equal("fid, err, err_data", fields, (calling.endpoint, Errno.FI_ECONNREFUSED, b"not today"))


@page("fi_connect", "A failed request is an error event.")
def a_request_to_nobody_is_an_error(pair: Pair) -> None:
    """Connect to a closed listener."""
    parties = Parties(pair)
    gone = parties.listener()
    nowhere = gone.getname()
    gone.close()
    calling = parties.endpoint()
    calling.endpoint.connect(nowhere)
    failure = parties.failure()
    expect_equal("fid and err", (failure.fid, failure.err), (calling.endpoint, Errno.FI_ECONNREFUSED))


@page("fi_connect", "It may be called once on an endpoint.")
def an_endpoint_is_connected_once(pair: Pair) -> None:
    """Connect while it is being connected, when it is, and after the end: all are refused."""
    parties = Parties(pair)
    calling, answering = ask(parties)
    with expect_error("connect during a connection attempt", Errno.FI_EALREADY):
        calling.endpoint.connect(parties.passive.getname())
    answering.endpoint.accept()
    told(parties, EqEvent.FI_CONNECTED, 2)
    for end in (calling, answering):
        with expect_error("connect of what is connected", Errno.FI_EISCONN):
            end.endpoint.connect(parties.passive.getname())
    calling.endpoint.shutdown()
    told(parties, EqEvent.FI_SHUTDOWN)
    with expect_error("connect of what was connected", Errno.FI_EOPBADSTATE):
        calling.endpoint.connect(parties.passive.getname())


@page("fi_accept", "Nothing can be sent before FI_CONNECTED, but receives can be posted at any time.")
def nothing_is_sent_before_the_connection(pair: Pair) -> None:
    """Send before the request and after it, which fails; then it succeeds."""
    parties, buffer = Parties(pair), bytearray(5)
    calling = parties.endpoint()
    calling.endpoint.recv(buffer, context="early")
    with expect_error("a send before connect", Errno.FI_ENOTCONN):
        calling.endpoint.send(b"early")
    calling.endpoint.connect(parties.passive.getname())
    answering = parties.endpoint(parties.event(EqEvent.FI_CONNREQ).info or CONNECTED)
    with expect_error("a send before FI_CONNECTED", Errno.FI_ENOTCONN):
        calling.endpoint.send(b"early")
    with expect_error("a send before accept", Errno.FI_ENOTCONN):
        answering.endpoint.send(b"early")
    answering.endpoint.accept()
    told(parties, EqEvent.FI_CONNECTED, 2)
    answering.endpoint.send(b"after", context="after")
    expect_equal("op_context", answering.finish().op_context, "after")
    expect_equal("op_context", calling.finish().op_context, "early")
    expect_equal("buffer", bytes(buffer), b"after")


# What goes with it


def exchanged(parties: Parties, size: int) -> tuple[bytes, bytes, bytes]:
    """Return the data that arrives when a request, an acceptance and a refusal carry so many bytes."""
    with parties.pair.part():
        calling = parties.endpoint()
        calling.endpoint.connect(parties.passive.getname(), pattern(size))
        event = parties.event(EqEvent.FI_CONNREQ)
        parties.endpoint(event.info or CONNECTED).endpoint.accept(pattern(size, 2))
        answers = {event.fid: event.data for event in (parties.event(EqEvent.FI_CONNECTED) for _ in range(2))}
        parties.endpoint().endpoint.connect(parties.passive.getname())
        refuse(parties, pattern(size, 3))
        return event.data, answers[calling.endpoint], parties.failure().err_data


@page("NOTES", "param goes with requests and answers, and is in the peer's event.")
def parameters_go_with_requests_and_answers(pair: Pair) -> None:
    """Send no bytes, one byte, and FI_OPT_CM_DATA_SIZE bytes with requests, acceptances and refusals."""
    parties = Parties(pair)
    most = parties.passive.getopt(*_CM_DATA_SIZE)
    for size in (0, 1, most):
        received = exchanged(parties, size)
        expect_equal(f"{size} bytes", received, (pattern(size), pattern(size, 2), pattern(size, 3)))


@page("NOTES", "Data that does not fit is silently truncated.")
def longer_parameters_are_cut(pair: Pair) -> None:
    """Truncate by one byte, of request, acceptance and refusal."""
    parties = Parties(pair)
    most = parties.passive.getopt(*_CM_DATA_SIZE)
    received = exchanged(parties, most + 1)
    expect_equal("what arrives", received, tuple(pattern(most + 1, seed)[:most] for seed in (1, 2, 3)))


# Names


@page("fi_setname", "Without a service address the provider chooses one.")
def a_port_is_chosen(pair: Pair) -> None:
    """Expect a different port for each listener."""
    parties = Parties(pair)
    other = pair.keep(pair.fabric.passive_ep(CONNECTED))
    other.bind(parties.events)
    other.setname(("127.0.0.1", 0))
    other.listen()
    (host, port), (_, first) = other.getname(), parties.passive.getname()
    expect_equal("host", host, "127.0.0.1")
    expect(port not in (0, first), f"expected a port of its own, got {port} besides {first}")


@page("fi_setname", "An address that cannot be assigned is refused.")
def an_address_in_use_is_refused(pair: Pair) -> None:
    """Bind where another listens; and once it listens, its address cannot be changed."""
    parties = Parties(pair)
    other = pair.keep(pair.fabric.passive_ep(CONNECTED))
    other.bind(parties.events)
    with expect_error("an address in use", Errno.FI_EADDRINUSE):
        other.setname(parties.passive.getname())
        other.listen()
    with expect_error("another address while it listens", Errno.FI_EOPBADSTATE):
        parties.passive.setname(("127.0.0.1", 0))


@page("fi_getname, fi_getpeer", "The calls return the address of this side and, once connected, of the peer.")
def names_are_told(pair: Pair) -> None:
    """Check that fi_getpeer fails before the connection; each name is that of the other side."""
    parties = Parties(pair)
    calling, answering = ask(parties)
    with expect_error("getpeer before FI_CONNECTED", Errno.FI_ENOTCONN):
        calling.endpoint.getpeer()
    answering.endpoint.accept()
    told(parties, EqEvent.FI_CONNECTED, 2)
    for one, other in ((calling, answering), (answering, calling)):
        expect_equal("getpeer", one.endpoint.getpeer(), other.endpoint.getname())
    expect(calling.endpoint.getname() != answering.endpoint.getname(), "expected two names, got one twice")


# How it ends


@page("fi_shutdown", "The peer gets FI_SHUTDOWN when an endpoint disconnects, or is closed abruptly.")
def the_peer_is_told_of_the_end(pair: Pair) -> None:
    """End by either side, in either way; after it nothing can be sent."""
    parties = Parties(pair)
    for by_caller in (True, False):
        for abruptly in (True, False):
            with pair.part():
                ends = parties.connect()
                leaving, staying = ends if by_caller else ends[::-1]
                if abruptly:
                    leaving.endpoint.close()
                else:
                    leaving.endpoint.shutdown()
                expect_equal("told", told(parties, EqEvent.FI_SHUTDOWN), {staying.endpoint})
                with expect_error("a send after the end", Errno.FI_ENOTCONN):
                    staying.endpoint.send(b"late")


@page("fi_shutdown", "Completions that are written already are not affected.")
def completions_outlast_the_connection(pair: Pair) -> None:
    """Finish a send and a receive, shut down, then read their completions."""
    parties, buffer = Parties(pair), bytearray(4)
    calling, answering = parties.connect()
    answering.endpoint.recv(buffer, context="in")
    answering.nothing_more()
    calling.endpoint.send(b"last", context="out")
    expect_equal("op_context", answering.finish().op_context, "in")
    calling.endpoint.shutdown()
    told(parties, EqEvent.FI_SHUTDOWN)
    expect_equal("op_context", calling.finish().op_context, "out")
    expect_equal("buffer", bytes(buffer), b"last")


@page("fi_shutdown", "Operations that are outstanding are cancelled or discarded; nothing else happens.")
def outstanding_operations_end_with_the_connection(pair: Pair) -> None:
    """Shut down under a receive without message: the receive is cancelled, or stays silent and can be cancelled."""
    parties = Parties(pair)
    calling, answering = parties.connect()
    answering.endpoint.recv(bytearray(4), context="waits")
    calling.endpoint.shutdown()
    told(parties, EqEvent.FI_SHUTDOWN)
    answering.endpoint.cancel("waits")
    expect_equal("op_context", answering.failure(Errno.FI_ECANCELED).op_context, "waits")
    answering.nothing_more()


# The calls


@page("SYNOPSIS", "Every call is there, with these arguments in this order.")
def calls_take_their_arguments_in_c_order(pair: Pair) -> None:
    """Make and end a connection, and refuse another one, with the calls of C; flags are 0."""
    parties = Parties(pair)
    passive = pair.keep(fi.fi_passive_ep(pair.fabric, CONNECTED))
    fi.fi_pep_bind(passive, parties.events, 0)
    fi.fi_setname(passive, ("127.0.0.1", 0), 2)
    fi.fi_listen(passive)
    address = fi.fi_getname(passive)
    assert isinstance(address, tuple)
    calling = parties.endpoint()
    fi.fi_connect(calling.endpoint, address, b"hello", 5)
    event = parties.event(EqEvent.FI_CONNREQ)
    expect_equal("data", event.data, b"hello")
    answering = parties.endpoint(event.info or CONNECTED)
    fi.fi_accept(answering.endpoint, b"welcome!", 7)
    told(parties, EqEvent.FI_CONNECTED, 2)
    expect_equal("fi_getpeer", fi.fi_getpeer(calling.endpoint), fi.fi_getname(answering.endpoint))
    with expect_error("flags of fi_shutdown", Errno.FI_EBADFLAGS, Errno.FI_EINVAL):
        fi.fi_shutdown(calling.endpoint, 1)
    fi.fi_shutdown(calling.endpoint, 0)
    told(parties, EqEvent.FI_SHUTDOWN)
    answering.endpoint.close()
    other = parties.endpoint()
    fi.fi_connect(other.endpoint, address, None, 0)
    info = parties.event(EqEvent.FI_CONNREQ).info
    assert info is not None
    assert isinstance(info.handle, ConnectionRequest)
    fi.fi_reject(passive, info.handle, b"no", 2)
    expect_equal("err_data", parties.failure().err_data, b"no")
    with expect_error("a send without a peer", Errno.FI_ENOTCONN):
        other.endpoint.inject(b"x", FI_ADDR_UNSPEC)


# Without a check of their own

page.leave("NAME, ARGUMENTS", "Names of the calls and their arguments.", "These are names.")
page.leave(
    "fi_connect",
    "It may be called once in the lifetime of an endpoint.",
    "Differs after an error: it may be tried again ([libfabric.md](libfabric.md#fi_cm3)).",
)
page.leave(
    "fi_shutdown",
    "Cancelled completions are written before it returns.",
    "Differs: operations in flight end as they would, receives are cancelled by fi_cancel "
    "([libfabric.md](libfabric.md#fi_cm3)).",
)
page.leave(
    "fi_getname, fi_getpeer",
    "An address that does not fit is truncated: FI_ETOOSMALL.",
    "Addresses are results, of their own size.",
)
page.leave(
    "fi_join, fi_mc_addr, fi_close, FLAGS",
    "Endpoints may join multicast groups.",
    "FI_MULTICAST is not offered.",
)
page.leave("RETURN VALUE", "0, or a negative errno.", "Errors are raised: [How C becomes Python](libfabric.md).")
