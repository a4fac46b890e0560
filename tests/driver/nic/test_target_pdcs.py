"""The target PDCs of a NIC in the driver, and ``amoeba pdcs``.

Covers ``amoeba_tools/cli/pdcs.py`` and ``nic/clock.py``.
"""

import json

import numpy as np
import pytest
from amoeba import EndpointAddress, Errno, open_cluster
from amoeba_model.registers import TargetPdcState
from amoeba_model.wire.uet import ReturnCode
from amoeba_tools.cli import app
from amoeba_tools.cli.pdcs import print_pdcs
from typer.testing import CliRunner

from tests.driver.endpoints import ALL_ACCESS, connect, make_side, refused
from tests.support.pcie_rtl import SMALL

OPEN, EXPELLED = TargetPdcState.OPEN, TargetPdcState.EXPELLED
KINDS = ["model", pytest.param("rtl", marks=pytest.mark.long), pytest.param("rtl+pcie", marks=pytest.mark.long)]


@pytest.fixture(params=KINDS)
def fabric(request, keep):
    with open_cluster([request.param] * 2, SMALL) as opened:
        yield opened


@pytest.fixture
def busy(fabric, keep):
    """(client, server's table, address and key to write to): one request has been executed."""
    client, server = keep((make_side(fabric.domain(0)), make_side(fabric.domain(1))))
    connect(client, server)
    region = keep(server.domain.mr_reg(np.zeros(8, np.uint64), ALL_ACCESS))
    place = region.address, region.key
    client.endpoint.write(bytes(8), client.peer, *place)
    client.finish()
    return client, fabric.nics[1].target_pdcs, place


def test_the_table_says_who_sends_and_closes_whom_it_is_told_to(busy, fabric):
    client, table, place = busy
    (pdc,) = table.used()
    address = EndpointAddress.unpack(client.endpoint.getname())
    assert len(table) == SMALL.target_pdcs
    assert (pdc.number, pdc.state, pdc.ip, pdc.context) == (0, OPEN, address.ip, 0)
    assert pdc.silent_cycles > 0
    table.close(pdc)
    assert table.read(0).state is EXPELLED
    client.endpoint.write(bytes(8), client.peer, *place)
    entry = client.failure()
    assert (entry.err, entry.prov_errno) == (Errno.FI_ECONNRESET, ReturnCode.LOCAL_PDC_FAILED)
    client.endpoint.write(bytes(8), client.peer, *place)  # opens another
    client.finish()
    assert [each.state for each in table.used()] == [EXPELLED, OPEN]
    with refused(Errno.FI_EALREADY, "target PDC 0 of .* is EXPELLED"):
        table.close(0)


def test_numbers_beyond_the_table_and_free_pdcs_are_refused_with_words(busy):
    _, table, _ = busy
    for wrong in (4, -1, 1 << 70):
        with refused(Errno.FI_EINVAL, "has 4 target PDCs, there is no number"):
            table.read(wrong)
        with refused(Errno.FI_EINVAL, "has 4 target PDCs, there is no number"):
            table.close(wrong)
    for wrong in ("0", None, 1.0, True):
        with refused(Errno.FI_EINVAL, "pdc: expected a number or what was read"):
            table.close(wrong)
    assert table.read(1).state is TargetPdcState.FREE
    with refused(Errno.FI_ENOENT, "target PDC 1 of .* is free"):
        table.close(1)


@pytest.mark.parametrize("fabric", ["model"], indirect=True)
def test_what_was_read_is_not_closed_when_it_is_another_s(busy):
    _, table, _ = busy
    (pdc,) = table.used()
    with refused(Errno.FI_ENOENT, "is another initiator's by now"):
        table.close(type(pdc)(**{**vars(pdc), "spdcid": 77}))
    assert table.read(0).state is OPEN


@pytest.mark.parametrize("fabric", ["model"], indirect=True)
def test_target_pdcs_are_printed_as_a_table_and_as_json(busy, fabric, capsys):
    nic = fabric.nics[1]
    print_pdcs(nic)
    shown = capsys.readouterr().out
    assert "1 of 4 target PDCs" in shown
    row = next(line for line in shown.splitlines() if "OPEN" in line)
    assert "10.0.0.1" in row
    print_pdcs(nic, as_json=True)
    facts = json.loads(capsys.readouterr().out)
    (used,) = facts["used"]
    assert (facts["target_pdcs"], used["state"], used["ip"], used["number"]) == (4, "OPEN", "10.0.0.1", 0)


def run(*arguments):
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "120"})


def test_the_command_lists_those_of_a_nic_that_was_just_opened():
    shown = run("pdcs")
    assert shown.exit_code == 0
    assert "all 64 target PDCs are free" in shown.stdout
    assert json.loads(run("pdcs", "--json").stdout)["used"] == []


@pytest.mark.parametrize(
    ("close", "status", "words"), [("3", 1, "is free"), ("64", 1, "there is no number 64"), ("x", 2, "Error")]
)
def test_the_command_closes_none_that_is_free(close, status, words):
    ended = run("pdcs", "--close", close)
    assert ended.exit_code == status
    assert words in ended.output
