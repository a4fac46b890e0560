"""Time of operations of UCX's API, on the state of the project that this runs with: CPU microseconds, as JSON.

Two model NICs, 8 bytes, windows of 64 operations. The time of an operation is the time of the call that posts it, and
of progress that takes its completion when the completions of all have come. So no device works in the timed part.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import amoeba.ucp as ucp
import numpy as np

_WINDOW = 64
_ROUNDS = 400
"""Network latencies after which everything posted has completed."""


def _timed(function: Callable[[], Any]) -> float:
    begin = time.process_time()
    function()
    return time.process_time() - begin


def measure(windows: int) -> dict[str, float]:
    """Return the microseconds of an operation by its name; the best window counts."""
    with ucp.open_adapters() as adapters:
        params = ucp.ucp_params_t(features=ucp.UCP_FEATURE_RMA | ucp.UCP_FEATURE_AMO64)
        contexts = [ucp.ucp_init(params, adapter=each) for each in adapters]
        worker, other = (ucp.ucp_worker_create(each, ucp.ucp_worker_params_t()) for each in contexts)
        memory, result, operand = np.zeros(8, np.uint64), np.zeros(1, np.uint64), np.ones(1, np.uint64)
        memh = ucp.ucp_mem_map(contexts[1], ucp.ucp_mem_map_params_t(address=memory, length=memory.nbytes))
        ep = ucp.ucp_ep_create(worker, ucp.ucp_ep_params_t(address=ucp.ucp_worker_get_address(other)[0]))
        rkey = ucp.ucp_ep_rkey_unpack(ep, ucp.ucp_rkey_pack(contexts[1], memh)[0])
        place, data = memh.address, bytes(operand)
        several, eight = ucp.UCP_OP_ATTR_FLAG_MULTI_SEND, ucp.ucp_dt_make_contig(8)
        many = ucp.ucp_request_param_t(op_attr_mask=several)
        change = ucp.ucp_request_param_t(op_attr_mask=several, datatype=eight)
        fetch = ucp.ucp_request_param_t(op_attr_mask=several, datatype=eight, reply_buffer=result)
        add, fadd, posted_add = ucp.UCP_ATOMIC_OP_ADD, ucp.UCP_ATOMIC_FETCH_OP_FADD, ucp.UCP_ATOMIC_POST_OP_ADD
        calls: dict[str, Callable[[], Any]] = {
            "ucp_put_nbx": lambda: ucp.ucp_put_nbx(ep, data, 8, place, rkey, many),
            "ucp_get_nbx": lambda: ucp.ucp_get_nbx(ep, result, 8, place, rkey, many),
            "ucp_atomic_op_nbx": lambda: ucp.ucp_atomic_op_nbx(ep, add, operand, 1, place, rkey, change),
            "ucp_atomic_op_nbx with a reply": lambda: ucp.ucp_atomic_op_nbx(ep, add, operand, 1, place, rkey, fetch),
            "ucp_atomic_post": lambda: ucp.ucp_atomic_post(ep, posted_add, 1, 8, place, rkey),
            "ucp_atomic_fetch_nb": lambda: ucp.ucp_atomic_fetch_nb(ep, fadd, 1, result, 8, place, rkey, None),
        }
        ucp.ucp_put(ep, data, 8, place, rkey)
        best = {name: (float("inf"), float("inf")) for name in calls}
        for _ in range(windows):  # all operations in turn, so that other load on the machine hits all of them alike
            for name, call in calls.items():
                ucp.ucp_worker_flush(worker)
                posted = _timed(lambda: [call() for _ in range(_WINDOW)])  # noqa: B023
                worker.rings.announce()
                for _ in range(_ROUNDS):
                    worker.nic.device.advance()
                taken = _timed(lambda: ucp.ucp_worker_progress(worker))
                best[name] = min(best[name][0], posted), min(best[name][1], taken)
        return {name: 1e6 * sum(spent) / _WINDOW for name, spent in best.items()}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
