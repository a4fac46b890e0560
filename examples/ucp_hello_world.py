"""UCX's ucp_hello_world on Amoeba: the server sends the client a string, by tagged messages.

    python examples/ucp_hello_world.py                  # the server
    python examples/ucp_hello_world.py -n 127.0.0.1     # the client, in another process

The workers' addresses travel by TCP (the server's) and by a tagged message (the client's).
"""

import argparse
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Sequence
from typing import Any

from amoeba import ucp

TAG, MASK = 0x1337A880, 0xFFFF_FFFF_FFFF_FFFF
LENGTH = struct.Struct("<Q")
GREETING = "UCP hello world"


class Failure(Exception):
    """The other end is gone, as somebody asked for."""


class HelloWorld:
    """One end: a worker, and how it waits for messages."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.ep_status = ucp.UcsStatus.UCS_OK
        """Status from the error handler."""
        features = ucp.UCP_FEATURE_TAG
        if options.mode != "probe":
            features |= ucp.UCP_FEATURE_WAKEUP
        config = ucp.ucp_config_read(None, None)
        self.context = ucp.ucp_init(ucp.ucp_params_t(features=features), config)
        if options.c:
            ucp.ucp_config_print(config, sys.stdout, None, ucp.UCS_CONFIG_PRINT_CONFIG)
        ucp.ucp_config_release(config)
        params = ucp.ucp_worker_params_t(thread_mode=ucp.UCS_THREAD_MODE_SINGLE)
        self.worker = ucp.ucp_worker_create(self.context, params)
        self.address, length = ucp.ucp_worker_get_address(self.worker)
        print(f"local address length: {length}")

    def connect(self, address: bytes) -> Any:
        """Make an endpoint to the other end."""

        def failed(arg: Any, ep: Any, status: ucp.UcsStatus) -> None:
            print(f"failure handler called with status {int(status)} ({ucp.ucs_status_string(status)})")
            self.ep_status = status

        mode = ucp.UCP_ERR_HANDLING_MODE_PEER if self.options.e else ucp.UCP_ERR_HANDLING_MODE_NONE
        handler = ucp.ucp_err_handler_t(failed, None)
        return ucp.ucp_ep_create(
            self.worker, ucp.ucp_ep_params_t(address=address, err_mode=mode, err_handler=handler)
        )

    def wait(self, request: Any) -> ucp.UcsStatus:
        """Make progress until a request is over; its status."""
        if request is None:
            return ucp.UcsStatus.UCS_OK
        while (status := ucp.ucp_request_check_status(request)) is ucp.UcsStatus.UCS_INPROGRESS:
            ucp.ucp_worker_progress(self.worker)
        ucp.ucp_request_free(request)
        return status

    def send(self, ep: Any, data: bytes) -> None:
        """Send a message. Raises Failure if the other end is gone."""
        memory = ucp.ucp_request_param_t(memory_type=self.options.m)
        try:
            status = self.wait(ucp.ucp_tag_send_nbx(ep, data, len(data), TAG, memory))
        except ucp.UcsError as error:
            status = error.status
        if status is not ucp.UcsStatus.UCS_OK:
            self.expect_failure()

    def expect_failure(self) -> None:
        """Wait for the error handler, and say so."""
        while self.ep_status is ucp.UcsStatus.UCS_OK:
            ucp.ucp_worker_progress(self.worker)
        raise Failure

    def receive(self) -> bytes:
        """Receive the next message, which is looked for as the mode says."""
        while True:
            if self.ep_status is not ucp.UcsStatus.UCS_OK:
                raise Failure
            message, info = ucp.ucp_tag_probe_nb(self.worker, TAG, MASK, 1)
            if message is not None:
                break
            if not ucp.ucp_worker_progress(self.worker):
                self.sleep()
        data = bytearray(info.length)
        request = ucp.ucp_tag_msg_recv_nbx(self.worker, data, len(data), message, None)
        status = self.wait(request)
        if status is not ucp.UcsStatus.UCS_OK:
            raise SystemExit(f"receive: {ucp.ucs_status_string(status)}")
        return bytes(data)

    def sleep(self) -> None:
        """Until something happens."""
        if self.options.mode == "wait":
            ucp.ucp_worker_wait(self.worker)
        elif self.options.mode == "eventfd":
            descriptor = ucp.ucp_worker_get_efd(self.worker)
            try:
                ucp.ucp_worker_arm(self.worker)
            except ucp.UcsBusyError:
                return
            select.select([descriptor], [], [])

    def linger(self) -> None:
        """Let the NIC send what it has: a simulated one dies with its process."""
        over = time.monotonic() + 1
        while time.monotonic() < over:
            ucp.ucp_worker_progress(self.worker)

    def flush(self, ep: Any) -> ucp.UcsStatus:
        """Wait until everything is delivered; how that went."""
        try:
            return self.wait(ucp.ucp_ep_flush_nbx(ep, ucp.ucp_request_param_t()))
        except ucp.UcsError as error:
            return error.status

    def close(self, ep: Any) -> None:
        """Close the endpoint, by force with error handling."""
        mode = ucp.UCP_EP_CLOSE_MODE_FORCE if self.options.e else ucp.UCP_EP_CLOSE_MODE_FLUSH
        self.wait(ucp.ucp_ep_close_nb(ep, mode))


def read(connection: socket.socket, length: int) -> bytes:
    """So many bytes. Raises SystemExit if the other end hangs up."""
    data = connection.recv(length, socket.MSG_WAITALL)
    if len(data) != length:
        raise SystemExit("the other end has hung up")
    return data


def run_client(end: HelloWorld, connection: socket.socket) -> None:
    """Tell the server who this is, and print what it sends."""
    server = read(connection, LENGTH.unpack(read(connection, LENGTH.size))[0])
    ep = end.connect(server)
    try:
        end.send(ep, LENGTH.pack(len(end.address)) + end.address)
        if end.options.e == "recv":
            end.linger()
            print("emulating a failure before the message is received", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        text = end.receive().decode()
        print("UCX data message was received")
        print(f"\n\n----- UCP TEST SUCCESS ----\n\n{text}\n\n---------------------------\n")
        if end.options.e == "keepalive":
            print("emulating a failure after communication", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    finally:
        end.close(ep)


def run_server(end: HelloWorld, connection: socket.socket) -> None:
    """Say who this is, and send the client a string."""
    connection.sendall(LENGTH.pack(len(end.address)) + end.address)
    message = end.receive()
    ep = end.connect(message[LENGTH.size :])
    try:
        if end.options.e == "send":
            print("emulating a failure before the message is sent", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if end.options.e == "recv":
            time.sleep(1)  # until the client is gone
        end.send(ep, (GREETING * (end.options.s // len(GREETING) + 1))[: end.options.s].encode())
        if end.options.e == "keepalive":
            print("waiting for the client's end", flush=True)
            end.expect_failure()
        status = end.flush(ep)
        print(f"flush_ep completed with status {int(status)} ({ucp.ucs_status_string(status)})")
        if status is not ucp.UcsStatus.UCS_OK or end.options.e == "recv":  # a short message is copied: it is over
            end.expect_failure()
    finally:
        end.close(ep)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """UCX's options."""
    parser = argparse.ArgumentParser(description="UCP hello world")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("-w", dest="mode", action="store_const", const="wait", help="sleep with ucp_worker_wait")
    modes.add_argument("-f", dest="mode", action="store_const", const="eventfd", help="sleep with ucp_worker_get_efd")
    modes.add_argument("-b", dest="mode", action="store_const", const="probe", help="probe all the time (default)")
    parser.set_defaults(mode="probe")
    parser.add_argument("-n", metavar="NAME", help="the server's name or address, at the client")
    parser.add_argument("-e", choices=["send", "recv", "keepalive"], help="emulate a failure, with error handling")
    parser.add_argument("-6", dest="ipv6", action="store_true", help="IPv6 for the exchange of addresses")
    parser.add_argument("-p", type=int, default=13337, metavar="PORT", help="of the exchange of addresses (13337)")
    parser.add_argument("-s", type=int, default=16, metavar="LENGTH", help="of the string (16)")
    parser.add_argument("-m", type=memory_type, default="host", metavar="TYPE", help="of memory: host")
    parser.add_argument("-c", action="store_true", help="print the configuration")
    options = parser.parse_args(arguments)
    if options.s < 0:
        parser.error(f"-s: expected a length, got {options.s}")
    return options


def memory_type(name: str) -> ucp.ucs_memory_type_t:
    """Return a memory type that a NIC here reaches."""
    if name != "host":
        raise argparse.ArgumentTypeError(f"expected host, got {name}")
    return ucp.UCS_MEMORY_TYPE_HOST


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    family = socket.AF_INET6 if options.ipv6 else socket.AF_INET
    end = HelloWorld(options)
    if options.n is not None:
        connection = socket.create_connection((options.n, options.p))
    else:
        with socket.create_server(("", options.p), family=family) as listening:
            print(f"waiting for a client at port {listening.getsockname()[1]}", flush=True)
            connection, _ = listening.accept()
    with connection:
        try:
            (run_server if options.n is None else run_client)(end, connection)
        except Failure:
            print("the failure was handled")
        # both are done before either goes
        connection.setblocking(False)
        connection.send(b"!")
        while not select.select([connection], [], [], 0)[0]:
            ucp.ucp_worker_progress(end.worker)
    ucp.ucp_worker_release_address(end.worker, end.address)
    ucp.ucp_worker_destroy(end.worker)
    ucp.ucp_cleanup(end.context)


if __name__ == "__main__":
    main()
