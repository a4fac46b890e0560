"""Workers of two processes, on NICs of their own that UDP joins."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import amoeba.ucp as ucp
import pytest
from amoeba.openucx.ucp.adapter import open_linked_adapter

from tests.driver.openucx.ucp.entities import Entity, finish, wait_for
from tests.driver.openucx.ucp.test_ep_close import Handler
from tests.support.ucp_program import FEATURES

ROOT = Path(__file__).parents[4]
PATIENCE = 60.0


class Program:
    """Another process, as :mod:`tests.support.ucp_program` says."""

    def __init__(self, kind="model", how="address", port=0):
        command = [sys.executable, "-m", "tests.support.ucp_program", kind, how, str(port)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        self.said = self.process.stdout.readline().strip()
        assert self.said, "the other process has said nothing"

    @property
    def address(self):
        return bytes.fromhex(self.said)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        """Ask it to end, and wait for that; what it has returned."""
        self.process.stdin.close()
        return self.process.wait(timeout=PATIENCE)

    def close(self):
        if self.process.poll() is None:
            self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


class Here:
    """A worker of this process, on the NIC that it has for itself."""

    def __init__(self, kind="model"):
        config = ucp.ucp_config_read(None, None)
        ucp.ucp_config_modify(config, "DEVICE", kind)
        self.context = ucp.ucp_init(ucp.ucp_params_t(features=FEATURES), config)
        self.worker = ucp.ucp_worker_create(self.context, ucp.ucp_worker_params_t())
        self.got = []
        ucp.ucp_worker_set_am_recv_handler(self.worker, ucp.ucp_am_handler_param_t(id=2, cb=self._take))
        self.handler = Handler()

    def _take(self, arg, header, header_length, data, length, param):
        self.got.append(bytes(data))
        return ucp.UCS_OK

    def connect(self, program):
        return ucp.ucp_ep_create(self.worker, ucp.ucp_ep_params_t(address=program.address, **self.handler.params()))

    def call(self, program):
        flags = ucp.UCP_EP_PARAMS_FLAGS_CLIENT_SERVER
        sockaddr = ("127.0.0.1", int(program.said))
        return ucp.ucp_ep_create(
            self.worker, ucp.ucp_ep_params_t(sockaddr=sockaddr, flags=flags, **self.handler.params())
        )

    def send(self, ep, data):
        params = ucp.ucp_request_param_t(flags=ucp.UCP_AM_SEND_FLAG_REPLY | ucp.UCP_AM_SEND_FLAG_EAGER)
        return ucp.ucp_am_send_nbx(ep, 1, None, 0, data, len(data), params)

    def wait_for(self, done, patience=PATIENCE):
        deadline = time.monotonic() + patience
        while not done():
            ucp.ucp_worker_progress(self.worker)
            assert time.monotonic() < deadline, "nothing has come of it"


@pytest.fixture
def here():
    with contextlib.closing((opened := Here()).context):
        yield opened


@pytest.fixture
def start():
    with contextlib.ExitStack() as programs:
        yield lambda *args, **more: programs.enter_context(contextlib.closing(Program(*args, **more)))


@pytest.mark.parametrize("how", ["address", "listen", "sleep"])
def test_messages_go_to_another_process_and_back(here, start, how):
    program = start(how=how)
    ep = here.call(program) if how == "listen" else here.connect(program)
    sent = [bytearray(b"message %d " % number * 50) for number in range(20)]
    for data in sent:
        here.send(ep, data)
    here.wait_for(lambda: len(here.got) == len(sent))
    assert here.got == [bytes(data) for data in sent]
    assert program.end() == 0
    here.wait_for(lambda: here.handler.heard)
    assert here.handler.heard == [("arg", ep, ucp.UCS_ERR_CONNECTION_RESET)]


@pytest.mark.parametrize("how", ["address", "listen"])
def test_when_the_other_process_is_killed_everything_ends_soon(here, start, how):
    program = start(how=how)
    ep = here.call(program) if how == "listen" else here.connect(program)
    here.send(ep, b"hello")
    here.wait_for(lambda: here.got)
    program.kill()
    requests = [here.send(ep, bytearray(4096)) for _ in range(200)]
    here.wait_for(lambda: here.handler.heard, 20)
    here.wait_for(lambda: all(request is None or request.done for request in requests), 20)
    assert len(here.handler.heard) == 1
    expected = {ucp.UCS_ERR_CONNECTION_RESET} if how == "listen" else {ucp.UCS_ERR_ENDPOINT_TIMEOUT}
    assert set(here.handler.statuses) == expected
    with pytest.raises(ucp.UcsError):
        here.send(ep, b"more")


def test_a_process_that_dies_unheard_is_noticed_by_its_connection_alone(here, start):
    program = start(how="listen")
    ep = here.call(program)
    here.send(ep, b"hello")
    here.wait_for(lambda: here.got)
    program.kill()
    here.wait_for(lambda: here.handler.heard, 5)
    assert here.handler.statuses == [ucp.UCS_ERR_CONNECTION_RESET]


def test_a_process_that_was_started_again_at_the_same_place_is_another(here, start):
    first = start()
    ep = here.connect(first)
    here.send(ep, b"first")
    here.wait_for(lambda: here.got == [b"first"])
    first.kill()
    second = start(port=ep.remote.link[1])
    other = here.connect(second)
    here.send(other, b"second")
    here.wait_for(lambda: here.got == [b"first", b"second"])
    lost = None
    with contextlib.suppress(ucp.UcsError):  # if it has been heard already
        lost = here.send(ep, bytearray(4096))
    here.wait_for(lambda: here.handler.heard, 30)
    assert [heard[1] for heard in here.handler.heard] == [ep]
    assert lost is None or lost.done


@pytest.mark.parametrize("first_word", ["its own", "the other's"])
def test_a_nic_that_takes_the_place_of_another_is_reached_whoever_speaks_first(first_word):
    with contextlib.closing(open_linked_adapter()) as opened:
        here = Entity(opened[0], FEATURES)
        former = open_linked_adapter()
        port = former[0].link[1]
        there = Entity(former[0], FEATURES)
        ep = here.connect(there, **(handler := Handler()).params())
        assert finish(ucp.ucp_stream_send_nbx(ep, b"former", 6, None), here, there) is ucp.UCS_OK
        wait_for(lambda: there.worker.endpoints and ep.idle, here, there)
        for endpoint in there.worker.endpoints.values():
            endpoint._known = False  # it dies without a word
        former.close()
        here.ep = None
        with contextlib.closing(open_linked_adapter(port=port)) as latter:
            there = Entity(latter[0], FEATURES)
            speaker, listener = (there, here) if first_word == "its own" else (here, there)
            speaker.connect(listener)
            sent = ucp.ucp_stream_send_nbx(speaker.ep, bytearray(4096), 4096, None)
            assert finish(sent, speaker, listener) is ucp.UCS_OK
            listener.connect(speaker)
            sent = ucp.ucp_stream_send_nbx(listener.ep, bytearray(4096), 4096, None)
            assert finish(sent, speaker, listener) is ucp.UCS_OK
            with contextlib.suppress(ucp.UcsError):  # if it has been heard already
                ucp.ucp_stream_send_nbx(ep, bytearray(4096), 4096, None)
            wait_for(lambda: handler.heard, here, there)
            assert [told[1] for told in handler.heard] == [ep]


def test_a_forked_child_has_nothing_of_it_and_the_parent_goes_on(here, start):
    ep = here.connect(start())
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        said = b"open"
        try:
            ucp.ucp_worker_progress(here.worker)
        except Exception as error:
            said = type(error).__name__.encode()
        os.write(writing, said)
        os._exit(0)
    os.close(writing)
    assert os.waitpid(child, 0)[1] == 0
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() in (b"UcsInvalidParamError", b"ClosedError")
    here.send(ep, b"still here")
    here.wait_for(lambda: here.got == [b"still here"])


@pytest.mark.parametrize("how", ["address", "sleep"])
def test_ctrl_c_ends_a_process_whatever_it_does(start, how):
    program = start(how=how)
    time.sleep(0.2)
    program.process.send_signal(signal.SIGINT)
    assert program.process.wait(timeout=PATIENCE) == 0
    assert select.select([program.process.stdout], [], [], 1)[0]
    assert program.process.stdout.read() == "interrupted\n"


@pytest.mark.long
def test_messages_go_to_a_process_with_a_nic_of_hardware_and_back(start):
    with contextlib.closing((here := Here()).context):
        ep = here.connect(start("rtl"))
        here.send(ep, b"hello")
        here.wait_for(lambda: here.got == [b"hello"], 120)
