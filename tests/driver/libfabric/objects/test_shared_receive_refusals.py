"""Shared receive contexts: what they are made with and bound to, and what is refused."""

from amoeba import (
    FI_SHARED_CONTEXT,
    BindFlags,
    Caps,
    EndpointOption,
    EpAttr,
    EpType,
    Errno,
    Info,
    OptionLevel,
    RxAttr,
)

from tests.driver.endpoints import BOTH, ON_MODEL, refused
from tests.driver.shared_receives import MULTI, PEEK, desk, tagged

SHARED = EpAttr(type=EpType.FI_EP_RDM, rx_ctx_cnt=FI_SHARED_CONTEXT)


@ON_MODEL
def test_an_endpoint_with_shared_receives_has_none_of_its_own(office, keep):
    endpoint = office.sides[0].endpoint
    alias = keep(endpoint.alias())
    for call in (
        lambda: endpoint.recv(bytearray(8)),
        lambda: endpoint.trecv(bytearray(8), 1),
        lambda: alias.recv(bytearray(8)),
        lambda: endpoint.trecvmsg(tagged([], 1), PEEK),
    ):
        with refused(Errno.FI_EOPNOTSUPP, "receives are posted to <SharedReceiveContext"):
            call()


@ON_MODEL
def test_endpoints_with_different_address_vectors_cannot_share(office, keep):
    domain = office.context._parent
    with refused(Errno.FI_EINVAL, "one address vector"):
        desk(domain, office.context, keep(domain.av_open()))
    for side in office.sides:
        side.endpoint.close()
    keep(desk(domain, office.context, keep(domain.av_open())))


@ON_MODEL
def test_an_endpoint_needs_a_queue_for_what_it_receives(office, keep):
    domain = office.context._parent
    endpoint = keep(domain.endpoint())
    for target in (office.context, keep(domain.cq_open()), office.peers):
        endpoint.bind(target)
    with refused(Errno.FI_ENOCQ):
        endpoint.enable()
    endpoint.bind(keep(domain.cq_open()), BindFlags.FI_RECV)
    endpoint.enable()


@ON_MODEL
def test_an_endpoint_is_capable_of_no_more_than_its_receives(office, keep):
    domain, peers = office.context._parent, office.peers
    context = keep(domain.srx_context(RxAttr(caps=Caps.FI_MSG | Caps.FI_RECV, size=16)))
    assert context.rx_size == 16
    office.sides[0].endpoint.close()
    with refused(Errno.FI_EINVAL, "exceeds"):
        desk(domain, context, peers, caps=Caps.FI_MSG | Caps.FI_TAGGED | Caps.FI_RECV | Caps.FI_SEND)
    keep(desk(domain, context, peers, caps=Caps.FI_MSG | Caps.FI_RECV | Caps.FI_SEND))
    with refused(Errno.FI_EINVAL, "FI_MULTI_RECV"):
        context.recv(bytearray(8), flags=MULTI)


@ON_MODEL
def test_binding_is_checked(fabric, office, keep):
    domain = office.context._parent
    office.sides[1].endpoint.close()
    endpoint = keep(domain.endpoint())
    endpoint.bind(office.context)
    another, foreign = keep(domain.srx_context()), keep(keep(fabric.domain(1)).srx_context())
    with refused(Errno.FI_EINVAL, "bound already"):
        endpoint.bind(another)
    unbound = keep(domain.endpoint())
    with refused(Errno.FI_EINVAL, "another domain"):
        unbound.bind(foreign)
    with refused(Errno.FI_EOPBADSTATE):
        office.sides[0].endpoint.bind(another)
    another.close()
    with refused(Errno.FI_EBADF):
        unbound.bind(another)


@ON_MODEL
def test_without_an_endpoint_there_is_nobody_to_tell(fabric, keep):
    context = keep(keep(fabric.domain(1)).srx_context())
    context.recv(bytearray(8), context="early")
    for call in (
        lambda: context.cancel("early"),
        lambda: context.trecvmsg(tagged([], 1), PEEK),
        lambda: context.recv(bytearray(8), src_addr=0),
    ):
        with refused(Errno.FI_EOPBADSTATE, "enable an endpoint"):
            call()


@ON_MODEL
def test_sizes_and_options(fabric, keep):
    domain = keep(fabric.domain(1))
    assert keep(domain.srx_context()).rx_size == keep(domain.srx_context(RxAttr())).rx_size == 256
    for size in (0, 1 << 15):
        with refused(Errno.FI_EINVAL, "rx_size"):
            domain.srx_context(size)
    context = keep(domain.srx_context(100))
    assert context.getopt(OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_RX_SIZE) == 100
    with refused(Errno.FI_EOPBADSTATE):
        context.setopt(OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_RX_SIZE, 50)
    with refused(Errno.FI_ENOPROTOOPT):
        context.getopt(OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_TX_SIZE)
    keep([domain.srx_context() for _ in range(fabric.nics[1].parameters.contexts - 3)])
    with refused(Errno.FI_ENOSPC):
        domain.srx_context()


@ON_MODEL
def test_an_info_that_asks_for_a_shared_context_makes_an_endpoint_that_needs_one(fabric, keep, office):
    info = fabric.getinfo(Info(ep_attr=SHARED))[0]
    assert info.ep_attr.rx_ctx_cnt == FI_SHARED_CONTEXT
    assert info.domain_attr.max_ep_srx_ctx == fabric.nics[0].parameters.contexts - 1
    domain = office.context._parent
    endpoint = keep(domain.endpoint(info))
    endpoint.bind(keep(domain.cq_open()), BOTH)
    endpoint.bind(office.peers)
    with refused(Errno.FI_EOPBADSTATE, "bind a shared receive context"):
        endpoint.enable()
    endpoint.bind(office.context)
    endpoint.enable()
