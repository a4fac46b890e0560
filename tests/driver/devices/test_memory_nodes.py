"""Memory nodes: others reach their memory, and they send nothing but answers and receive no messages."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from amoeba import (
    AtomicMsg,
    BindFlags,
    Caps,
    CqFormat,
    EpType,
    ErrorAvailableError,
    FabricError,
    MrAccess,
    Op,
    OpFlags,
    RmaIoc,
    RmaIov,
    RmaMsg,
    UnsupportedError,
    open_cluster,
    ucp,
)
from amoeba.core.errno import Errno
from amoeba.core.errors import ArgumentError, ArgumentTypeError
from amoeba.nic.address import EndpointAddress
from amoeba_model.impairments import Impairments
from amoeba_model.registers import DOORBELL_PAGE, DOORBELL_REGISTERS, Counter, bar_blocks
from amoeba_model.wire.codec import FrameHeader, encode
from amoeba_model.wire.uet import ResponseOpcode, ReturnCode
from amoeba_tools.cli.app import app
from typer.testing import CliRunner

from tests.support import uet_packets as uet
from tests.support.memory_nodes import HOST, NODE, WORDS, Pair, pair_of, program
from tests.support.uet_endpoint import Initiator


@pytest.fixture(params=["model", "rtl"], ids=["specification", "hardware"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def pair() -> Iterator[Pair]:
    with pair_of("model") as opened:
        yield opened


@pytest.mark.timeout(1200)
def test_every_operation_on_a_lossy_link_has_the_results_of_the_specification(kind):
    with pair_of("model") as ideal:
        right = program(ideal, seed=7)
    with pair_of(kind, Impairments(seed=3, loss=0.02, duplication=0.02, reordering=0.02)) as pair:
        assert program(pair, seed=7) == right
        counters = pair.fabric.nics[1].counters()
        assert pair.fabric.nics[0].counters()[Counter.RETRANSMISSIONS] > 0
    sent = {counter for counter in counters if counters[counter] and "SENT" in counter.name}
    assert sent <= {Counter.RESPONSES_SENT, Counter.NACKS_SENT}


@pytest.mark.timeout(1200)
def test_what_absent_parts_would_obey_has_no_effect(kind):
    with pair_of(kind) as pair:
        host, nic = pair.fabric.nics
        device = nic.device
        before = nic.counters()
        for register in DOORBELL_REGISTERS:
            for value in (0, 1, 5, 0xFFFF):
                device.write(DOORBELL_PAGE + register.offset, value)
        # An acknowledgement with data and a NACK of what the node never sent.
        mac, ip = (int.from_bytes(nic.mac, "big"), nic.ip)
        answer = FrameHeader(mac, ip, is_request=False, opcode=ResponseOpcode.WITH_DATA, psn=1, cack_psn=1)
        for header, payload in ((answer, bytes(100)), (replace(answer, is_control=True, opcode=0), b"")):
            device.deliver(encode(header, payload, int.from_bytes(host.mac, "big"), host.ip), device.cycles + 1)
        pair.endpoint.write(b"\7" * 8, pair.node, pair.region.address, pair.region.key)
        pair.queue.sread(1)
        after, faults = nic.counters(), device.faults()
    assert pair.memory[0] == 0x0707_0707_0707_0707
    assert after[Counter.DROPPED_RESPONSE] - before[Counter.DROPPED_RESPONSE] == 2
    assert faults == []
    quiet = (
        Counter.DESCRIPTORS, Counter.COMPLETIONS, Counter.REQUESTS_SENT, Counter.EVENTS, Counter.INTERRUPTS,
    )  # fmt: skip
    assert [after[counter] for counter in quiet] == [0] * len(quiet)


def test_the_registers_say_that_there_is_no_initiator(pair):
    host, nic = pair.fabric.nics
    assert nic.registers.read("device", "peers") == nic.parameters.peers == 0
    names = [[placed.block.name for placed in each.blocks] for each in (host, nic)]
    assert names[1] == [name for name in names[0] if name != "peers"]
    assert names[1] == [placed.block.name for placed in bar_blocks(NODE)]
    assert nic.registers.read("device", "receives") == nic.registers.read("device", "unexpected") == 0
    assert not nic.parameters.has_messages
    assert nic.registers.read("device", "event_rings") == nic.parameters.event_rings == 0
    assert host.registers.read("device", "event_rings") == 1


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(UnsupportedError, match=r"model \(128-bit.*has no initiator: it answers requests for its"):
        call()


def test_nothing_that_would_send_is_opened_and_nothing_is_lost(pair):
    domain = pair.keep(pair.fabric.domain(1))
    queue, addresses = pair.keep(domain.cq_open()), pair.keep(domain.av_open())
    directions = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
    for _ in range(3):  # more often than there are contexts
        refused(lambda: domain.endpoint(cq=queue, av=addresses, cq_flags=directions))
        refused(lambda: domain.srx_context(64))
    refused(lambda: pair.addresses.insert(pair.endpoint.getname()))
    domain.endpoint(cq=queue, av=addresses).close()
    for operation in (
        lambda: pair.passive.write(bytes(8), 0, 0, 0),
        lambda: pair.passive.send(bytes(8), 0),
    ):
        with pytest.raises(ArgumentError, match="the address vector has no address 0"):
            operation()


def test_an_endpoint_with_known_addresses_is_refused_and_leaves_its_context(pair):
    domain = pair.keep(pair.fabric.domain(1))
    queue, addresses = pair.keep(domain.cq_open()), pair.keep(domain.av_open())
    addresses.insert(pair.endpoint.getname())
    for _ in range(3):
        refused(lambda: domain.endpoint(cq=queue, av=addresses))


ONE = np.ones(1, np.uint64)
LONG = bytes(2 * HOST.payload)
MESSAGES: dict[str, Callable[[Pair], object]] = {
    "send": lambda pair: pair.endpoint.send(bytes(8), pair.node),
    "senddata": lambda pair: pair.endpoint.senddata(bytes(8), 7, pair.node),
    "tsend": lambda pair: pair.endpoint.tsend(bytes(8), pair.node, 5),
    "a long send": lambda pair: pair.endpoint.send(LONG, pair.node),
    "a long tsend": lambda pair: pair.endpoint.tsend(LONG, pair.node, 5),
    "a tagged atomic": lambda pair: pair.endpoint.atomicmsg(
        AtomicMsg([ONE], pair.node, [RmaIoc(0, 1, 5)], Op.FI_SUM), OpFlags.FI_TAGGED
    ),
}


WITH_DATA: dict[str, Callable[[Pair], object]] = {
    "a write": lambda pair: pair.endpoint.writedata(
        bytes(8), 7, pair.node, pair.region.address + 8, pair.region.key
    ),
    "a long write": lambda pair: pair.endpoint.writedata(
        bytes(2 * HOST.payload), 7, pair.node, pair.region.address, pair.region.key
    ),
    "a read": lambda pair: pair.endpoint.readmsg(
        RmaMsg([bytearray(8)], pair.node, [RmaIov(pair.region.address, 8, pair.region.key)], data=7),
        OpFlags.FI_REMOTE_CQ_DATA,
    ),
    "an atomic": lambda pair: pair.endpoint.atomicmsg(
        AtomicMsg([ONE], pair.node, [RmaIoc(pair.region.address + 8, 1, pair.region.key)], Op.FI_SUM, data=7),
        OpFlags.FI_REMOTE_CQ_DATA,
    ),
}


@pytest.mark.timeout(1200)
def test_immediate_data_to_it_is_refused_and_touches_no_memory(kind):
    with pair_of(kind) as pair:
        pair.memory[:] = 5
        for post in WITH_DATA.values():
            post(pair)
            with pytest.raises(ErrorAvailableError):
                pair.queue.sread(1)
            assert pair.queue.readerr().err is Errno.FI_EOPNOTSUPP
            assert (pair.memory == 5).all()
        pair.endpoint.write(bytes(8), pair.node, pair.region.address, pair.region.key)
        pair.queue.sread(1)
        counters = pair.fabric.nics[1].counters()
    assert pair.memory.tolist() == [0] + [5] * (WORDS - 1)
    assert counters[Counter.EVENTS] == counters[Counter.INTERRUPTS] == 0


@pytest.mark.timeout(1200)
def test_its_event_counters_count_what_peers_do(kind):
    with pair_of(kind) as pair:
        counter = pair.keep(pair.domain.cntr_open())
        pair.region.bind(counter, BindFlags.FI_REMOTE_WRITE)
        place = pair.node, pair.region.address, pair.region.key
        pair.endpoint.write(bytes(8), *place)
        pair.endpoint.atomic(ONE, *place, Op.FI_SUM)
        pair.queue.sread(2)
        assert (counter.read(), counter.readerr()) == (2, 0)


@pytest.mark.timeout(1200)
def test_each_message_to_it_ends_with_an_error_and_nothing_else_is_lost(kind):
    with pair_of(kind) as pair:
        place = pair.region.address, pair.region.key
        for number, post in enumerate(MESSAGES.values(), start=1):
            post(pair)
            pair.endpoint.fetch_atomic(ONE, np.zeros_like(ONE), pair.node, *place, Op.FI_SUM)
            with pytest.raises(ErrorAvailableError):
                pair.queue.sread(1)
            assert pair.queue.readerr().err is Errno.FI_EOPNOTSUPP
            pair.queue.sread(1)
            assert pair.memory[0] == number
        counters = pair.fabric.nics[1].counters()
    assert counters[Counter.REFUSED_REQUESTS] == len(MESSAGES)
    assert counters[Counter.MESSAGES_MATCHED] == counters[Counter.MESSAGES_UNEXPECTED] == 0


@pytest.mark.timeout(1200)
def test_sends_of_strangers_are_refused_between_writes_of_several_packets(kind):
    with pair_of(kind) as pair:
        name = EndpointAddress.unpack(pair.passive.getname())
        mac = int.from_bytes(name.mac, "big")
        to = uet.Address(mac, name.ip, name.job_id, name.pid_on_fep, name.resource_index)
        stranger = Initiator(uet.Station(pair.fabric.network), to)
        content = bytes(range(256)) * 2
        for opcode in (uet.SEND, uet.TAGGED_SEND):
            whole = stranger.header(opcode, length=8) + bytes(8)
            for part in (whole, *stranger.parts(opcode, content, 200)):
                assert stranger.ask(part).code == ReturnCode.UNSUPPORTED_OP
            pair.memory[:] = 0
            stranger.message(uet.WRITE, content, 200, key=pair.region.key, offset=pair.region.address)
            assert pair.memory.tobytes() == content


def test_with_event_rings_a_node_reports_immediate_data():
    build = replace(NODE, event_rings=True)
    with open_cluster(("model", "model"), (HOST, build)) as fabric:
        info = next(offer for offer in fabric.getinfo() if offer.domain_attr.name == "amoeba1")
        own, other = fabric.domain(0), fabric.domain(info)
        region = other.mr_reg(bytearray(8), MrAccess.FI_REMOTE_WRITE)
        with (
            own.cq_open() as sent, own.av_open() as addresses, own.endpoint(cq=sent, av=addresses) as endpoint,
            other.cq_open(CqFormat.FI_CQ_FORMAT_DATA) as told, other.av_open() as peers,
            other.endpoint(info, cq=told, av=peers, cq_flags=BindFlags.FI_TRANSMIT | BindFlags.FI_RECV) as passive,
        ):  # fmt: skip
            endpoint.writedata(bytes(8), 42, addresses.insert(passive.getname()), region.address, region.key)
            sent.sread(1)
            assert told.sread(1)[0].data == 42
        region.close(), own.close(), other.close()


def test_it_is_offered_for_memory_alone(pair):
    offers = [offer for offer in pair.fabric.getinfo() if offer.domain_attr.name == "amoeba1"]
    assert [offer.ep_attr.type for offer in offers] == [EpType.FI_EP_RDM]
    reached = Caps.FI_RMA | Caps.FI_ATOMIC | Caps.FI_REMOTE_READ | Caps.FI_REMOTE_WRITE
    sends = Caps.FI_READ | Caps.FI_WRITE | Caps.FI_SEND | Caps.FI_RECV | Caps.FI_MSG | Caps.FI_TAGGED
    assert reached in offers[0].caps
    assert offers[0].domain_attr.cq_data_size == 0
    assert not offers[0].caps & sends
    domain = pair.keep(pair.fabric.domain(offers[0]))
    queue, addresses = pair.keep(domain.cq_open()), pair.keep(domain.av_open())
    endpoint = pair.keep(domain.endpoint(offers[0], cq=queue, av=addresses))
    with pytest.raises(UnsupportedError, match="opened without some of"):
        endpoint.write(bytes(8), 0, 0, 0)


def test_ucp_opens_no_worker_on_it_and_loses_no_context():
    with contextlib.closing(ucp.open_adapters(("model", "model"), (HOST, NODE))) as adapters:
        context = ucp.ucp_init(ucp.ucp_params_t(features=ucp.UCP_FEATURE_RMA), adapter=adapters[1])
        for _ in range(3):
            with pytest.raises(ucp.UcsError, match="has no initiator"):
                ucp.ucp_worker_create(context, ucp.ucp_worker_params_t())
        assert len(adapters[1].nic.contexts.free) == NODE.contexts
        ucp.ucp_cleanup(context)


@pytest.mark.parametrize(
    ("parameters", "error", "says"),
    [
        ([NODE], FabricError, "expected parameters of 2 NICs, got 1"),
        ("tiny", ArgumentTypeError, "parameters"),
        ([NODE, "tiny"], ArgumentTypeError, "parameters: expected NicParameters, or a sequence of them, got str"),
    ],
)
def test_parameters_are_those_of_all_nics_or_of_each(parameters, error, says):
    with pytest.raises(error, match=says):
        open_cluster(("model", "model"), parameters)


def test_info_tells_and_a_program_on_it_ends_with_one_line():
    runner = CliRunner()
    told = runner.invoke(app, ["info", "--build", "node", "-v"])
    assert told.exit_code == 0, told.output
    assert "none: no initiator" in told.output
    assert "none: peers' messages are refused" in told.output
    assert "none: immediate data is refused" in told.output
    result = runner.invoke(app, ["gups", "--build", "node", "--table-size", "4"])
    assert result.exit_code == 1
    assert "has no initiator" in result.output
