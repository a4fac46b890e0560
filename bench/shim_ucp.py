"""Time of libucp's own part of a call: from the function in C to the driver's, and back.

The library is ``libucp.so.0`` with its functions in Python; the reached objects have no effect.
"""

import dataclasses
from typing import Any

from amoeba.embed import Binding, Memory
from amoeba.openucx.libucp import atomics, completions, transfers
from amoeba.openucx.libucp.atomics import Atomics
from amoeba.openucx.libucp.buffers import Buffers
from amoeba.openucx.libucp.completions import Completions
from amoeba.openucx.libucp.handle_table import HandleTable
from amoeba.openucx.libucp.library import LIBRARY as LIBUCP
from amoeba.openucx.libucp.process import Process
from amoeba.openucx.libucp.start import sent_off
from amoeba.openucx.libucp.transfers import Transfers
from amoeba.openucx.ucp.constants import ucp_atomic_op_t, ucp_op_attr_t
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.remote_key import RemoteKey
from amoeba.openucx.ucp.worker import Worker
from amoeba.openucx.ucp.worker_base import RequestMemory

from bench.shim_cost import COST_C

__all__ = ["KINDS", "LIBRARY", "start"]

KINDS = (
    "ucp_put_nbx",
    "ucp_get_nbx",
    "ucp_atomic_op_nbx that fetches",
    "ucp_tag_send_nbx",
    "ucp_tag_recv_nbx",
    "ucp_put_nbi",
    "ucp_request_check_status",
)
"""In the order of the C function."""
_BODY = """
static uintptr_t shim_ep, shim_worker, shim_rkey, shim_request;
static void shim_objects(uintptr_t ep, uintptr_t worker, uintptr_t rkey, uintptr_t request) {
    shim_ep = ep, shim_worker = worker, shim_rkey = rkey, shim_request = request;
}
static void shim_sent(void *request, int status, void *data) { }
static void shim_received(void *request, int status, const void *info, void *data) { }
static long shim_call(int kind) {
    static uint64_t memory[8];
    ucp_request_param_t sent = { .op_attr_mask = %(CALLBACK)d }, received = sent, fetched = sent;
    sent.cb.send = fetched.cb.send = (void *)shim_sent;
    received.cb.recv = (void *)shim_received;
    fetched.op_attr_mask |= %(FETCHED)d;
    fetched.datatype = 8 << 3;
    fetched.reply_buffer = (uintptr_t)(memory + 1);
    uintptr_t at = (uintptr_t)memory;
    switch (kind) {
    case 0: return ucp_put_nbx(shim_ep, at, 8, 0, shim_rkey, &sent);
    case 1: return ucp_get_nbx(shim_ep, at, 8, 0, shim_rkey, &sent);
    case 2: return ucp_atomic_op_nbx(shim_ep, %(ADD)d, at, 1, 0, shim_rkey, &fetched);
    case 3: return ucp_tag_send_nbx(shim_ep, at, 8, 1, &sent);
    case 4: return ucp_tag_recv_nbx(shim_worker, at, 8, 1, ~0ul, &received);
    case 5: return ucp_put_nbi(shim_ep, at, 8, 0, shim_rkey);
    default: return ucp_request_check_status(shim_request);
    }
}
static void shim_begin(void) { ucp_worker_progress(0); }
"""
_ATTR = ucp_op_attr_t
_NUMBERS = {
    "CALLBACK": _ATTR.UCP_OP_ATTR_FIELD_CALLBACK,
    "FETCHED": _ATTR.UCP_OP_ATTR_FIELD_DATATYPE | _ATTR.UCP_OP_ATTR_FIELD_REPLY_BUFFER,
    "ADD": ucp_atomic_op_t.UCP_ATOMIC_OP_ADD,
}
LIBRARY = dataclasses.replace(
    LIBUCP,
    name="libucp-shim.so",
    entry="bench.shim_ucp",
    helpers=LIBUCP.helpers + "void shim_objects(uintptr_t ep, uintptr_t worker, uintptr_t rkey, uintptr_t request);",
    source=LIBUCP.source + _BODY % _NUMBERS + COST_C,
)


def start(binding: Binding) -> None:
    """Define the library's functions: those that are measured as libucp does, all others as nothing."""
    ffi, lib = binding.ffi, binding.lib
    memory, handles, process = Memory(ffi), HandleTable(), Process()
    buffers, requests = Buffers(ffi, memory), Completions(ffi, lib, memory, handles, process)
    request = RequestMemory(0)
    requests.hooks(0, ffi.NULL, ffi.NULL)[0](request)

    def done(*arguments: Any) -> RequestMemory:
        return request

    for part in (transfers, atomics):
        for name in ("ucp_put_nbx", "ucp_get_nbx", "ucp_atomic_op_nbx", "ucp_tag_send_nbx",
                     "ucp_tag_recv_nbx"):  # fmt: skip
            if hasattr(part, name):
                setattr(part, name, done)
    transfers.ucp_put_nbi = lambda *arguments: 0  # type: ignore[assignment]
    completions.ucp_request_check_status = lambda found: 0  # type: ignore[assignment]
    numbers = (handles.add(object.__new__(kind)) for kind in (Endpoint, Worker, RemoteKey))
    lib.shim_objects(*numbers, request.area)
    moved = Transfers(ffi, memory, handles, requests, buffers)
    parts = (moved, Atomics(memory, handles, requests, buffers), requests)
    for function in LIBRARY.functions:
        name = function.name
        kind = next((kind for kind in KINDS if kind.split()[0] == name), None)
        if kind is None:
            binding.define(name, lambda *arguments: None, lambda error: None)
            continue
        measured = next(getattr(part, name) for part in parts if hasattr(part, name))
        if "recv" not in name and "request" not in name:
            measured = sent_off(measured, {}, process)
        binding.define(name, measured, lambda error, of=function: -1 % (1 << 64) if of.returns == "uintptr_t" else -1)
