"""A process with a worker of UCX's API that sends back whatever active messages it gets.

``python -m tests.support.ucp_program KIND HOW [PORT]``: on a NIC of this kind; HOW is ``address``, and the worker's
address is printed, or ``listen``, and the port is, or ``sleep``: the same as ``address``, but asleep between
messages. PORT: UDP port of its NIC. It ends when its input does, or by a signal.
"""

import contextlib
import os
import select
import sys

import amoeba.ucp as ucp

FEATURES = ucp.UCP_FEATURE_AM | ucp.UCP_FEATURE_STREAM | ucp.UCP_FEATURE_RMA | ucp.UCP_FEATURE_WAKEUP


def main(kind: str, how: str, port: str = "0") -> None:
    config = ucp.ucp_config_read(None, None)
    ucp.ucp_config_modify(config, "DEVICE", kind)
    ucp.ucp_config_modify(config, "LINK_PORT", port)
    context = ucp.ucp_init(ucp.ucp_params_t(features=FEATURES), config)
    with contextlib.closing(context):
        worker = ucp.ucp_worker_create(context, ucp.ucp_worker_params_t())
        kept = []

        def echo(arg, header, header_length, data, length, param):
            back = bytearray(data)
            flags = ucp.UCP_AM_SEND_FLAG_EAGER
            ucp.ucp_am_send_nbx(param.reply_ep, 2, None, 0, back, length, ucp.ucp_request_param_t(flags=flags))
            return ucp.UCS_OK

        def called(request, arg):
            kept.append(ucp.ucp_ep_create(worker, ucp.ucp_ep_params_t(conn_request=request)))

        ucp.ucp_worker_set_am_recv_handler(worker, ucp.ucp_am_handler_param_t(id=1, cb=echo))
        if how == "listen":
            handler = ucp.ucp_listener_conn_handler_t(called)
            params = ucp.ucp_listener_params_t(sockaddr=("127.0.0.1", 0), conn_handler=handler)
            listener = ucp.ucp_listener_create(worker, params)
            print(ucp.ucp_listener_query(listener, ucp.ucp_listener_attr_t()).sockaddr[1], flush=True)
        else:
            print(ucp.ucp_worker_get_address(worker)[0].hex(), flush=True)
        while not select.select([sys.stdin], [], [], 0)[0] or os.read(0, 1):
            if not ucp.ucp_worker_progress(worker) and how == "sleep":
                ucp.ucp_worker_wait(worker)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        print("interrupted", flush=True)
