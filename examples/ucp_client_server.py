"""UCX's ucp_client_server on Amoeba: the client connects to a socket address, and sends by streams, tags or messages.

python examples/ucp_client_server.py                # the server
python examples/ucp_client_server.py -a 127.0.0.1   # the client, in another process
"""

import argparse
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from amoeba import ucp

TAG, AM_ID = 0xCAFE, 0
FEATURES = {"stream": ucp.UCP_FEATURE_STREAM, "tag": ucp.UCP_FEATURE_TAG, "am": ucp.UCP_FEATURE_AM}
TEXT = "UCX client-server hello world "
RENDEZVOUS = ucp.UCP_AM_RECV_ATTR_FLAG_RNDV


class Message:
    """A message: so many buffers of so many bytes."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.parts = [np.zeros(options.s, np.uint8) for _ in range(options.v)]
        self.length = options.s * options.v
        if options.v == 1:
            self.buffer, self.count, self.datatype = self.parts[0], options.s, ucp.ucp_dt_make_contig(1)
        else:
            self.buffer = [ucp.ucp_dt_iov_t(part, part.nbytes) for part in self.parts]
            self.count, self.datatype = options.v, ucp.ucp_dt_make_iov()

    def fill(self) -> None:
        """Fill the buffers with the client's text."""
        text = np.frombuffer((TEXT * (self.length // len(TEXT) + 1))[: self.length].encode(), np.uint8)
        for index, part in enumerate(self.parts):
            part[:] = text[index * part.nbytes : (index + 1) * part.nbytes]

    def text(self) -> str:
        """Return the text of the message."""
        return b"".join(map(bytes, self.parts)).decode()


class Side:
    """A context with a worker, and the operations of both sides."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.context = ucp.ucp_init(ucp.ucp_params_t(features=FEATURES[options.c]))
        self.worker = self.new_worker()
        self.gone = False
        self.waiting: deque[Any] = deque()
        """Active messages that have come: their bytes, or descriptors of those at the sender."""
        if options.c == "am":
            handler = ucp.ucp_am_handler_param_t(id=AM_ID, cb=self.arrived)
            ucp.ucp_worker_set_am_recv_handler(self.worker, handler)

    def new_worker(self) -> Any:
        params = ucp.ucp_worker_params_t(thread_mode=ucp.UCS_THREAD_MODE_SINGLE)
        return ucp.ucp_worker_create(self.context, params)

    def failed(self, arg: Any, ep: Any, status: ucp.UcsStatus) -> None:
        """Handle an error: the other side is gone."""
        print(f"error handling callback was invoked with status {int(status)} ({ucp.ucs_status_string(status)})")
        self.gone = True

    def arrived(self, arg: Any, header: Any, header_length: int, data: Any, length: int, param: Any) -> ucp.UcsStatus:
        """Handle active messages."""
        if param.recv_attr & RENDEZVOUS:
            self.waiting.append(data)
            return ucp.UcsStatus.UCS_INPROGRESS
        self.waiting.append(bytes(data) if length else b"")
        return ucp.UcsStatus.UCS_OK

    def progress_until(self, over: Callable[[], object]) -> None:
        """Progress until a condition holds. Raises SystemExit if the other side goes away meanwhile."""
        while not over():
            ucp.ucp_worker_progress(self.worker)
            if self.gone and not over():
                raise SystemExit("the other side is gone")

    def finish(self, request: Any) -> None:
        """Make progress until a request is over. Raises SystemExit if it has failed."""
        if request is None:
            return
        self.progress_until(lambda: ucp.ucp_request_check_status(request) is not ucp.UcsStatus.UCS_INPROGRESS)
        status = ucp.ucp_request_check_status(request)
        ucp.ucp_request_free(request)
        if status is not ucp.UcsStatus.UCS_OK:
            raise SystemExit(f"unable to complete the operation: {ucp.ucs_status_string(status)}")

    def send(self, ep: Any, message: Message) -> None:
        """Send a message, by the API of the options."""
        param = ucp.ucp_request_param_t(datatype=message.datatype, memory_type=self.options.m)
        if self.options.c == "stream":
            request = ucp.ucp_stream_send_nbx(ep, message.buffer, message.count, param)
        elif self.options.c == "tag":
            request = ucp.ucp_tag_send_nbx(ep, message.buffer, message.count, TAG, param)
        else:
            request = ucp.ucp_am_send_nbx(ep, AM_ID, b"", 0, message.buffer, message.count, param)
        self.finish(request)

    def receive(self, ep: Any, message: Message) -> None:
        """Receive a message, by the API of the options."""
        param = ucp.ucp_request_param_t(datatype=message.datatype, memory_type=self.options.m)
        if self.options.c == "stream":
            param.flags = ucp.UCP_STREAM_RECV_FLAG_WAITALL
            self.finish(ucp.ucp_stream_recv_nbx(ep, message.buffer, message.count, param)[0])
        elif self.options.c == "tag":
            self.finish(ucp.ucp_tag_recv_nbx(self.worker, message.buffer, message.count, TAG, 0, param))
        else:
            self.progress_until(lambda: self.waiting)
            data = self.waiting.popleft()
            if isinstance(data, bytes):
                whole = np.frombuffer(data, np.uint8)
                for index, part in enumerate(message.parts):
                    part[:] = whole[index * part.nbytes : (index + 1) * part.nbytes]
            else:
                request = ucp.ucp_am_recv_data_nbx(self.worker, data, message.buffer, message.count, param)
                self.finish(request)

    def work(self, ep: Any, *, server: bool) -> None:
        """Exchange all messages, and one byte back: the client closes when the server has everything."""
        for index in range(self.options.i):
            message = Message(self.options)
            if server:
                self.receive(ep, message)
            else:
                message.fill()
                self.send(ep, message)
            if index == self.options.i - 1 or index % 2000 == 0:
                print(f"{'server' if server else 'client'}: iteration #{index + 1}")
                print(f"\n----- {'received' if server else 'sent'} -----\n{message.text()}\n", flush=True)
        end = Message(argparse.Namespace(s=1, v=1))
        (self.send if server else self.receive)(ep, end)

    def close(self, ep: Any, flags: int) -> None:
        request = ucp.ucp_ep_close_nbx(ep, ucp.ucp_request_param_t(flags=flags))
        if request is not None:
            while ucp.ucp_request_check_status(request) is ucp.UcsStatus.UCS_INPROGRESS:
                ucp.ucp_worker_progress(self.worker)
            ucp.ucp_request_free(request)

    def end(self) -> None:
        ucp.ucp_worker_destroy(self.worker)
        ucp.ucp_cleanup(self.context)


def run_server(options: argparse.Namespace, clients: int | None) -> None:
    """Serve clients one after the other: so many, or for ever. Listens with a worker of its own."""
    side = Side(options)
    listening = side.new_worker()
    requests: list[Any] = []

    def called(conn_request: Any, arg: Any) -> None:
        attr = ucp.ucp_conn_request_query(conn_request, ucp.ucp_conn_request_attr_t())
        print(f"server received a connection request from client at address {attr.client_address[0]}")
        if requests:
            print("rejecting a connection request: only one client at a time is supported")
            ucp.ucp_listener_reject(listener, conn_request)
        else:
            requests.append(conn_request)

    host = options.l or ("::" if options.ipv6 else "0.0.0.0")
    handler = ucp.ucp_listener_conn_handler_t(called, None)
    params = ucp.ucp_listener_params_t(sockaddr=(host, options.p), conn_handler=handler)
    listener = ucp.ucp_listener_create(listening, params)
    address = ucp.ucp_listener_query(listener, ucp.ucp_listener_attr_t()).sockaddr
    print(f"server is listening on IP {address[0]} port {address[1]}\nwaiting for connection...", flush=True)
    served = 0
    while clients is None or served < clients:
        while not requests:
            ucp.ucp_worker_progress(listening)
        err_handler = ucp.ucp_err_handler_t(side.failed, None)
        side.gone = False
        ep = ucp.ucp_ep_create(side.worker, ucp.ucp_ep_params_t(conn_request=requests[0], err_handler=err_handler))
        try:
            side.work(ep, server=True)
        except SystemExit as reason:
            print(reason)
        side.close(ep, 0)
        requests.clear()
        served += 1
        print("waiting for connection...", flush=True)
    ucp.ucp_listener_destroy(listener)
    ucp.ucp_worker_destroy(listening)
    side.end()


def run_client(options: argparse.Namespace) -> None:
    """Connect, send, close."""
    side = Side(options)
    ep = ucp.ucp_ep_create(
        side.worker,
        ucp.ucp_ep_params_t(
            flags=ucp.UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
            sockaddr=(options.a, options.p),
            err_mode=ucp.UCP_ERR_HANDLING_MODE_PEER,
            err_handler=ucp.ucp_err_handler_t(side.failed, None),
        ),
    )
    try:
        side.work(ep, server=False)
    finally:
        side.close(ep, ucp.UCP_EP_CLOSE_FLAG_FORCE)
        side.end()


def memory_type(name: str) -> ucp.ucs_memory_type_t:
    """Return a memory type that a NIC here reaches."""
    if name != "host":
        raise argparse.ArgumentTypeError(f"expected host, got {name}")
    return ucp.UCS_MEMORY_TYPE_HOST


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """UCX's options, and how many clients a server serves."""
    parser = argparse.ArgumentParser(description="UCP client and server")
    parser.add_argument("-a", metavar="ADDRESS", help="of the server, at the client")
    parser.add_argument("-l", metavar="ADDRESS", help="where the server listens (everywhere)")
    parser.add_argument("-p", type=int, default=13337, metavar="PORT", help="(13337); 0: the system chooses one")
    parser.add_argument("-c", choices=list(FEATURES), default="stream", type=str.lower, help="how to send (stream)")
    parser.add_argument("-6", dest="ipv6", action="store_true", help="listen at an IPv6 address")
    parser.add_argument("-i", type=int, default=1, metavar="COUNT", help="of messages (1)")
    parser.add_argument("-v", type=int, default=1, metavar="COUNT", help="of buffers of a message (1)")
    parser.add_argument("-s", type=int, default=16, metavar="SIZE", help="of each buffer (16)")
    parser.add_argument("-m", type=memory_type, default="host", metavar="TYPE", help="of memory: host")
    parser.add_argument("--clients", type=int, metavar="COUNT", help="end after so many clients (never)")
    options = parser.parse_args(arguments)
    if min(options.i, options.v, options.s) < 1:
        parser.error("-i, -v, -s: expected positive numbers")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if options.a is None:
        run_server(options, options.clients)
    else:
        run_client(options)


if __name__ == "__main__":
    main()
