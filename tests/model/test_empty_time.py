"""Empty time: a network of several processes passes over it, or sleeps, where its NICs foresee what they do."""

import contextlib
import socket

import pytest
from amoeba_model.device import DeviceClosedError
from amoeba_model.link_addresses import mac_of_link
from amoeba_model.nic.core import Core
from amoeba_model.nic.device import ModelDevice
from amoeba_model.nic.frames import FrameTransmitter
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import DOORBELL_PAGE, DOORBELL_REGISTERS
from amoeba_model.trace import Stage
from amoeba_model.udp_network import UdpNetwork
from amoeba_model.wire.codec import FrameHeader

from tests.support.scripted import ScriptedDevice, frame_to, mac_of

FAR = 5000
"""Cycles: many times a link's latency."""
DOORBELLS = {register.name: DOORBELL_PAGE + register.offset for register in DOORBELL_REGISTERS}
"""Of context 0."""
ANNOUNCEMENT = (Stage.REQUEST_SENT, 0, 0, 0, 0)


class Foreseeing(ScriptedDevice):
    """Says when its next frame leaves, and that it is busy until then."""

    foresees = True

    @property
    def next_departure(self):
        return self._script[0][0] if self._script else None

    @property
    def idle(self):
        return not self._script


@pytest.fixture
def network():
    """A network of a process that sleeps for a minute where it waits, with a peer that says nothing."""
    with (
        UdpNetwork(keepalive=3600, watchdog=3600) as made,
        contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as peer,
    ):
        made.idle_hz = made.latency / 60
        peer.bind(("127.0.0.1", 0))
        made.connect(mac_of(1), *peer.getsockname())
        yield made


def test_a_step_goes_on_to_the_next_departure_that_a_nic_foresees(network):
    device = Foreseeing()
    network.attach(device, mac_of(0))
    for number in range(1, 4):
        device.send(frame_to(1), FAR * number)
    for number in range(1, 4):
        assert network.patience == 0
        network.step(at_once=True)
        assert network.traffic.delivered == number
        assert FAR * number <= network.now < FAR * number + network.latency


def test_a_step_in_which_a_frame_has_left_ends_with_its_latency(network):
    device = Foreseeing()
    network.attach(device, mac_of(0))
    device.send(frame_to(1), 50)
    device.send(frame_to(1), FAR)
    network.step(at_once=True)
    assert network.now == network.latency


def test_a_nic_that_foresees_nothing_takes_a_step_for_each_latency(network):
    device = ScriptedDevice()
    network.attach(device, mac_of(0))
    device.send(frame_to(1), FAR)
    for _ in range(FAR // network.latency):
        assert network.traffic.delivered == 0
        network.step(at_once=True)
    assert network.now == FAR


def test_a_frame_between_nics_of_the_process_arrives_before_a_later_departure(network):
    device, other = Foreseeing(), ScriptedDevice()
    network.attach(device, mac_of(0))
    network.attach(other, mac_of(2))
    device.send(frame_to(2), 150)
    device.send(frame_to(1), FAR)
    network.step(at_once=True)
    network.step(at_once=True)
    assert network.now == FAR
    assert other.arrived == [(150 + network.latency, frame_to(2))]


def test_behind_a_departure_a_network_waits_at_once_where_its_nics_foresee_the_next(network):
    device = Foreseeing()
    network.attach(device, mac_of(0))
    device.send(frame_to(1))
    assert network.patience == 0
    network.step(at_once=True)
    assert network.patience == 60


def test_a_nic_that_waits_lets_time_pass_without_looking_first(network):
    device = ScriptedDevice()
    network.attach(device, mac_of(0))
    network.step(at_once=True)
    network._rested_since -= 3600  # a long time ago: the step of now sleeps no more
    now = network.now
    device.advance()
    assert network.now == now
    device.wait(0)
    assert network.now > now


def test_a_doorbell_that_asks_for_an_interrupt_leaves_a_model_idle_and_an_unfetched_descriptor_does_not():
    device = ModelDevice()
    with UdpNetwork(arithmetic=True) as network:
        network.attach(device, mac_of_link(*network.address))
        network.step()
        for name in ("arm", "event_arm", "event_head", "completion_head"):
            device.write(DOORBELLS[name], 0)
            assert device.idle, name
        device.write(DOORBELLS["receive_tail"], 1)
        assert not device.idle
        network.step(at_once=True)
        assert device.idle  # the context is not enabled
        device.write(DOORBELLS["transmit_tail"], 1)
        assert not device.idle
        device.close()
    with pytest.raises(DeviceClosedError):
        device.next_departure  # noqa: B018


def test_a_transmitter_foresees_the_cycle_in_which_a_frame_has_left():
    core = Core(NicParameters())
    transmitter = FrameTransmitter(core)
    assert transmitter.next_departure is None
    for ready in (700, 20, 20):
        transmitter.send(FrameHeader(mac=1), bytes(8), ready, ANNOUNCEMENT)
    left = []
    while (departure := transmitter.next_departure) is not None:
        core.now = departure - 1
        assert not transmitter.take()
        core.now = departure
        (frame,) = transmitter.take()
        assert frame.cycle == departure
        left.append(departure)
    assert left[0] < left[1] < 700 < left[2]


def test_a_transmitter_that_is_stopped_foresees_nothing_until_it_may_go_on():
    core = Core(NicParameters())
    transmitter = FrameTransmitter(core)
    transmitter.send(FrameHeader(mac=1), bytes(8), 20, ANNOUNCEMENT)
    soonest = transmitter.next_departure
    transmitter.pause(10, True)
    assert transmitter.next_departure is None
    transmitter.pause(500, False)
    assert transmitter.next_departure == soonest + 480
