"""Names of ucxx, statuses as exceptions, addresses that travel, arrays.

Covers ``ucx.py`` and ``openucx/ucxx/listener.py``.
"""

import pickle

import amoeba.ucp as ucp
import amoeba.ucx as ucxx
import numpy as np
import pytest
from amoeba.openucx.ucp.status import UcsError

ALIASES = ("Address", "BufferRequest", "BufferRequests", "Context", "Endpoint", "Listener", "Request", "Worker")
"""Of which ucxx's low level names have UCX in front."""
FUNCTIONS = (
    "init reset stop_notifier_thread get_ucx_version progress get_config create_listener create_endpoint recv",
    "create_endpoint_from_worker_address get_ucp_context_info get_ucp_worker_info get_active_transports get_address",
    "continuous_ucx_progress get_ucp_worker get_ucxx_worker get_worker_address get_ucx_address_from_buffer",
)
MEMBERS = {
    "UCXContext": "config handle info cuda_support map alloc",
    "UCXWorker": "address cancel_inflight_requests arm create_endpoint_from_hostname epoll_file_descriptor handle "
    "info create_endpoint_from_worker_address init_blocking_progress_mode progress progress_once "
    "progress_worker_event set_progress_thread_start_callback start_progress_thread stop_progress_thread tag_probe "
    "tag_recv tag_recv_with_handle is_python_future_enabled",
    "UCXEndpoint": "am_probe am_recv am_send close close_blocking create create_from_conn_request handle "
    "create_from_worker_address raise_on_error remove_close_callback set_close_callback stream_recv stream_send "
    "tag_recv tag_recv_multi tag_recv_with_handle tag_send tag_send_multi worker_handle send recv send_multi "
    "recv_multi send_obj recv_obj recv_with_handle abort closed uid close_after_n_recv put get atomic flush fence "
    "unpack_rkey",
    "UCXListener": "create create_endpoint_from_conn_request ip port",
    "UCXRequest": "check_error completed is_completed future get_future get_recv_buffer status wait wait_yield",
    "UCXBufferRequests": "all_completed is_completed get_requests py_buffers get_py_buffers",
    "UCXAddress": "address create_from_buffer create_from_worker length tobytes",
}


def test_the_names_of_ucxx_are_there():
    for name in ALIASES:
        assert getattr(ucxx, f"UCX{name}") is getattr(ucxx, name)
    for name in " ".join(FUNCTIONS).split():
        assert callable(getattr(ucxx, name))
    for owner, members in MEMBERS.items():
        for member in members.split():
            assert hasattr(getattr(ucxx, owner), member), f"{owner} has no {member}"
    assert set(ucxx.__all__) <= set(dir(ucxx))
    assert len(set(ucxx.__all__)) == len(ucxx.__all__)


def test_each_error_has_its_exception_with_its_status():
    statuses = {each.status for each in UcsError.__subclasses__()}
    classes = [getattr(ucxx, name) for name in ucxx.__all__ if name.startswith("UCX") and name.endswith("Error")]
    assert {each.status for each in classes if each is not ucxx.UCXError} == statuses
    assert all(issubclass(each, ucxx.UCXError) for each in classes)
    assert ucxx.UCXError is UcsError
    assert ucxx.UCXCloseError.status is ucp.UcsStatus.UCS_ERR_NOT_CONNECTED
    assert ucxx.UCXConfigError.status is ucp.UcsStatus.UCS_ERR_INVALID_PARAM


def test_features_and_operations_have_ucx_s_numbers():
    assert [int(each) for each in ucxx.Feature] == [1, 2, 4, 8, 16, 32, 64]
    for each in ucxx.AtomicOp:
        assert int(each) == int(getattr(ucp, f"UCP_ATOMIC_OP_{each.name}"))
    assert ucxx.TagMaskFull.value == ucxx.UCXXTagMaskFull == 2**64 - 1
    assert ucxx.Tag(5) == 5 == ucxx.UCXXTag(5).value


def test_addresses_are_bytes_that_travel(parties):
    address = ucxx.UCXAddress.create_from_worker(parties.a)
    again = ucxx.UCXAddress.create_from_buffer(bytearray(address))
    travelled = pickle.loads(pickle.dumps(address))
    assert type(travelled) is ucxx.Address
    assert address == again == travelled == parties.a.address == parties.a.get_address()
    assert hash(address) == hash(again)
    assert {address: 1}[again] == 1
    assert address.length == len(bytes(address)) == memoryview(address).nbytes
    assert address.tobytes() == bytes(address)
    assert address.address > 0
    assert address.uid != ucxx.Address.create_from_worker(parties.b).uid
    for wrong in (b"", bytes(len(address)), bytes(address)[:-1], "text", None):
        with pytest.raises(ucxx.UCXInvalidParamError):
            ucxx.Endpoint.create_from_worker_address(parties.a, wrong)


def test_arrays_say_what_numpy_says():
    values = np.arange(12, dtype=np.uint32).reshape(3, 4)
    found = ucxx.Array(values)
    assert (found.ptr, found.nbytes, found.shape, found.itemsize) == (values.ctypes.data, 48, (3, 4), 4)
    assert found.strides == values.strides
    assert found.contiguous
    assert not found.readonly
    assert not found.cuda
    assert ucxx.Array(b"text").readonly
    assert ucxx.Array(bytearray(3)).shape == (3,)
    with pytest.raises(ucxx.UCXInvalidParamError):
        ucxx.Array(values[:, ::2])


def test_contexts_and_workers_say_what_they_are(parties):
    context, worker = parties.contexts[0], parties.a
    assert context.feature_flags == tuple(ucxx.Feature)
    assert context.config["RNDV_THRESH"] == context.get_config()["RNDV_THRESH"]
    assert "UCP context" in context.info
    assert "UCP worker" in worker.info
    assert "UCP endpoint" in parties.ab.ucx_info
    assert not context.cuda_support
    assert len({context.handle, worker.handle, parties.ab.handle}) == 3
    assert parties.ab.worker_handle == worker.handle
    assert parties.ab.uid == parties.ab.handle
    assert not worker.is_python_future_enabled()
    assert not worker.is_delayed_request_submission_enabled()
    for wrong in (None, worker, 5):
        with pytest.raises(ucxx.UCXInvalidParamError):
            ucxx.Worker(wrong)
        if wrong is not worker:
            with pytest.raises(ucxx.UCXInvalidParamError):
                ucxx.Endpoint.create_from_worker_address(wrong, worker.address)


def test_everything_is_closed_by_with_in_any_order(models):
    with ucxx.Context(adapter=models[0]) as context, ucxx.Worker(context) as worker:
        memory = context.alloc(10)
        with ucxx.Listener.create(worker, 0, print, ip_address="127.0.0.1") as listener:
            assert listener.ip == "127.0.0.1"
            assert listener.port > 0
        assert listener.closed
        endpoint = ucxx.Endpoint.create_from_worker_address(worker, worker.address)
        remote = endpoint.unpack_rkey(memory.pack())
        context.close()
        for each in (context, worker, memory, endpoint, remote):
            assert each.closed
            each.close()
        with pytest.raises(ucxx.UCXError):
            context.alloc(5)


def test_a_rejected_connection_says_so(parties):
    listener = None

    def called(conn_request):
        listener.reject(conn_request)

    listener = ucxx.Listener.create(parties.b, 0, called, ip_address="127.0.0.1")
    endpoint = parties.a.create_endpoint_from_hostname("127.0.0.1", listener.port)
    with pytest.raises(ucxx.UCXRejectedError):
        endpoint.connect().result(60)
    assert not endpoint.alive
