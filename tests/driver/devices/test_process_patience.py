"""Processes that are stopped for a while are not given up, whatever command joins their NICs."""

import contextlib
import sys
from types import SimpleNamespace

import pytest
from amoeba import Rendezvous, Retransmission, join_cluster
from amoeba.devices.linked import patient
from amoeba_model.impairments import Impairments
from amoeba_tools.cli import app
from typer.testing import CliRunner

STOPPED = 30.0
"""Seconds; twice as long must do no harm."""
IDLE_HZ = 1_000_000
"""Cycles per second of a NIC that waits, at most."""


class Joined(Exception):
    """The command has joined its NIC."""


@pytest.mark.parametrize("lossy", [False, True])
def test_b12_a_process_may_be_stopped_for_half_a_minute(lossy):
    for idle_hz in (100_000, IDLE_HZ):
        assert patient(idle_hz, lossy=lossy).patience(idle_hz) > 2 * STOPPED


def test_a_nic_on_a_lossy_link_sends_again_as_soon_as_others_do():
    assert patient(IDLE_HZ, lossy=True).timeout == Retransmission().timeout


@pytest.mark.parametrize(
    ("command", "joins"), [("soak", "join_cluster"), ("conformance", "join_pair")]
)
@pytest.mark.parametrize("loss", [[], ["--loss", "0.01"]])
def test_a_command_leaves_timeouts_to_the_processes_unless_options_name_them(monkeypatch, command, joins, loss):
    module = sys.modules[f"amoeba_tools.cli.{command}"]
    named = []

    def joined(kind, rendezvous, **options):
        named.append(options["retransmission"])
        raise Joined

    monkeypatch.setattr(module, joins, joined)
    monkeypatch.setattr(module, "meeting", lambda *_: contextlib.nullcontext(SimpleNamespace(rank=0, ranks=2)))
    for options in ([], ["--retransmit-timeout", "3000"]):
        ended = CliRunner().invoke(app, [command, "--listen", "127.0.0.1:0", *loss, *options])
        assert isinstance(ended.exception, Joined), ended.output
    assert named == [None, Retransmission(timeout=3000)]


@pytest.mark.parametrize("links", [Impairments(), Impairments(loss=0.01)], ids=["perfect", "lossy"])
def test_a_cluster_of_processes_is_patient_if_nobody_says_otherwise(links):
    class Alone(Rendezvous):
        """The first of two, without the second."""

        def __init__(self):
            super().__init__(0, 2, [])

        host = "127.0.0.1"

        def exchange(self, value, idle=None):
            return [value, ("127.0.0.1", 50_000, "020000000002", value[3] + 1)]

    for chosen in (None, Retransmission(timeout=3000)):
        with join_cluster("model", Alone(), impairments=links, retransmission=chosen) as fabric:
            (nic,) = fabric.nics
            expected = chosen or patient(nic.device.idle_hz, lossy=not links.is_perfect)
            assert nic.retransmission == expected
