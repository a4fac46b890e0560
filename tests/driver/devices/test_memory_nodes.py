"""NICs without an initiator: others reach their memory, and they send nothing but answers."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from amoeba import (
    BindFlags,
    Caps,
    EpType,
    ErrorAvailableError,
    FabricError,
    UnsupportedError,
    open_cluster,
    ucp,
)
from amoeba.core.errno import Errno
from amoeba.core.errors import ArgumentError, ArgumentTypeError
from amoeba_model.impairments import Impairments
from amoeba_model.registers import DOORBELL_PAGE, DOORBELL_REGISTERS, Counter, bar_blocks
from amoeba_model.wire.codec import FrameHeader, encode
from amoeba_model.wire.uet import ResponseOpcode
from amoeba_tools.cli.app import app
from typer.testing import CliRunner

from tests.support.memory_nodes import HOST, NODE, Pair, pair_of, program


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
def test_what_an_initiator_would_obey_has_no_effect(kind):
    with pair_of(kind) as pair:
        host, nic = pair.fabric.nics
        device = nic.device
        before = nic.counters()
        for register in DOORBELL_REGISTERS[:3]:
            for value in (0, 1, 5, 0xFFFF):
                device.write(DOORBELL_PAGE + register.offset, value)
        # An acknowledgement with data and a NACK of what the node never sent.
        mac, ip = (int.from_bytes(nic.mac, "big"), nic.ip)
        answer = FrameHeader(mac, ip, is_request=False, opcode=ResponseOpcode.WITH_DATA, psn=1, cack_psn=1)
        for header, payload in ((answer, bytes(100)), (replace(answer, is_control=True, opcode=0), b"")):
            device.deliver(encode(header, payload, int.from_bytes(host.mac, "big"), host.ip), device.cycles + 1)
        pair.endpoint.write(b"\7" * 8, pair.node, pair.region.address, pair.region.key)
        pair.queue.sread(1)
        after = nic.counters()
    assert pair.memory[0] == 0x0707_0707_0707_0707
    assert after[Counter.DROPPED_RESPONSE] - before[Counter.DROPPED_RESPONSE] == 2
    quiet = (Counter.DESCRIPTORS, Counter.COMPLETIONS, Counter.REQUESTS_SENT, Counter.INTERRUPTS)
    assert [after[counter] for counter in quiet] == [0] * len(quiet)


def test_the_registers_say_that_there_is_no_initiator(pair):
    host, nic = pair.fabric.nics
    assert nic.registers.read("device", "peers") == nic.parameters.peers == 0
    names = [[placed.block.name for placed in each.blocks] for each in (host, nic)]
    assert names[1] == [name for name in names[0] if name != "peers"]
    assert names[1] == [placed.block.name for placed in bar_blocks(NODE)]


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


def test_a_message_to_it_ends_with_an_error(pair):
    pair.endpoint.send(bytes(8), pair.node)
    with pytest.raises(ErrorAvailableError):
        pair.queue.sread(1)
    assert pair.queue.readerr().err is Errno.FI_ESHUTDOWN


def test_it_is_offered_for_memory_alone(pair):
    offers = [offer for offer in pair.fabric.getinfo() if offer.domain_attr.name == "amoeba1"]
    assert [offer.ep_attr.type for offer in offers] == [EpType.FI_EP_RDM]
    reached = Caps.FI_RMA | Caps.FI_ATOMIC | Caps.FI_REMOTE_READ | Caps.FI_REMOTE_WRITE
    sends = Caps.FI_READ | Caps.FI_WRITE | Caps.FI_SEND | Caps.FI_RECV | Caps.FI_MSG | Caps.FI_TAGGED
    assert reached in offers[0].caps
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
    result = runner.invoke(app, ["gups", "--build", "node", "--table-size", "4"])
    assert result.exit_code == 1
    assert "has no initiator" in result.output
