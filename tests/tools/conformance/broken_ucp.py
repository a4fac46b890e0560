"""Ways to break the driver's UCP, each with checks that must find out."""

import functools
from dataclasses import replace

import amoeba.ucp as ucp
from amoeba.openucx.ucp.active_messages import ActiveMessages, AmReceive
from amoeba.openucx.ucp.flushes import Flush
from amoeba.openucx.ucp.memory import Memory
from amoeba.openucx.ucp.remote_key import RemoteKey
from amoeba.openucx.ucp.requests import Request
from amoeba.openucx.ucp.streams import StreamReceive, Streams
from amoeba.openucx.ucp.worker import Worker

__all__ = ["CASES"]

CASES = {}
ALL = 2**64 - 1


def breaks(*ids):
    def register(sabotage):
        CASES[sabotage.__name__] = sabotage, ids
        return sabotage

    return register


def call(name, *ids):
    """Break one function of the API: what is decorated gets the original first."""

    def register(wrapper):
        def sabotage(patch):
            patch.setattr(ucp, name, functools.partial(wrapper, getattr(ucp, name)))

        CASES[wrapper.__name__] = sabotage, ids
        return wrapper

    return register


def around(patch, owner, name, wrapper):
    patch.setattr(owner, name, functools.partialmethod(wrapper, getattr(owner, name)))


# Requests


@breaks(
    "ucp_tag_send_nbx.a_send_in_flight_*", "ucp_put_nb.an_operation_in_flight_*", "ucp_ep_flush_nb.it_calls_back_*"
)
def callbacks_are_forgotten(patch):
    def complete(self, original, status):
        self.callback = None
        original(self, status)

    around(patch, Request, "complete", complete)


@breaks("ucp_tag_send_nb.a_send_in_flight_*", "ucp_get_nbx.an_operation_in_flight_*")
def callbacks_run_twice(patch):
    def complete(self, original, status):
        if self.callback is not None and not self.done:
            self.callback(self.handle, status, *self.told(), self.user_data)
        original(self, status)

    around(patch, Request, "complete", complete)


@breaks("ucp_request_free.what_is_freed_goes_on_silently")
def freed_requests_still_call_back(patch):
    patch.setattr(Request, "free", lambda self: None)


@breaks("ucp_request_check_status.the_status_is_told", "ucp_request_free.a_request_is_freed_once")
def freed_requests_are_known_on(patch):
    def free(self, original):
        self.callback = None

    around(patch, Request, "free", free)


@call("ucp_request_cancel", "ucp_request_cancel.a_receive_is_canceled", "ucp_tag_recv_nbx.any_number_can_be_posted")
def cancelling_does_nothing(original, worker, request):
    pass


@call("ucp_request_check_status", "ucp_request_check_status.the_status_is_told")
def everything_is_said_to_be_over(original, request):
    original(request)
    return ucp.UCS_OK


@call("ucp_request_query", "ucp_request_query.status_and_kind_*")
def descriptions_are_longer_than_asked_for(original, request, attr):
    found = original(request, attr)
    found.debug_string = (found.debug_string or "") * 2 + "-----"
    return found


@breaks("ucp_tag_send_nbx.the_callback_gets_the_users_data_*", "ucp_put_nbx.completion_at_once_*")
def the_users_request_is_ignored(patch):
    patch.setattr(Request, "use", lambda self, memory: None)


# Tagged messages


@call("ucp_tag_send_nbx", "ucp_tag_send_nbx.the_tag_decides_*")
def tags_have_32_bits(original, ep, buffer, count, tag, param):
    return original(ep, buffer, count, tag & 0xFFFF_FFFF, param)


@call("ucp_tag_send_nb", "ucp_tag_send_nb.messages_arrive_*", "ucp_tag_send_nb.datatypes_say_*")
def datatypes_are_ignored(original, ep, buffer, count, datatype, tag, cb):
    return original(ep, buffer, count, ucp.ucp_dt_make_contig(1), tag, cb)


@call("ucp_tag_send_nbr", "ucp_tag_send_nbr.nbr_says_in_progress_*")
def nbr_always_says_ok(original, *arguments):
    original(*arguments)
    return ucp.UCS_OK


@call(
    "ucp_tag_send_sync_nb",
    "ucp_tag_send_sync_nb.a_synchronous_send_waits_*",
    "ucp_tag_send_sync_nb.a_synchronous_send_always_*",
)
def synchronous_sends_are_ordinary_ones(original, *arguments):
    return ucp.ucp_tag_send_nb(*arguments)


@call("ucp_tag_send_sync_nbx", "ucp_tag_send_sync_nbx.a_synchronous_send_always_*")
def synchronous_sends_have_no_request(original, *arguments):
    original(*arguments)


@call("ucp_tag_recv_nb", "ucp_tag_recv_nb.only_bits_of_the_mask_count", "ucp_tag_recv_nb.without_a_bit_*")
def masks_are_ignored(original, worker, buffer, count, datatype, tag, mask, cb):
    original_mask = mask if mask >> 64 else ALL
    return original(worker, buffer, count, datatype, tag, original_mask, cb)


@call("ucp_tag_recv_nbx", "ucp_tag_recv_nbx.only_bits_of_the_mask_count")
def masks_take_everything(original, worker, buffer, count, tag, mask, param):
    return original(worker, buffer, count, tag, 0, param)


@call("ucp_tag_recv_nbr", "ucp_tag_recv_nbr.a_message_that_does_not_fit_is_truncated")
def receives_write_beyond_their_count(original, worker, buffer, count, datatype, tag, mask, req):
    size = len(buffer) if hasattr(buffer, "__len__") else count
    return original(worker, buffer, max(size, count), datatype, tag, mask, req)


@call("ucp_tag_recv_request_test", "ucp_tag_recv_request_test.test_tells_status_and_message")
def tests_forget_the_sender(original, request):
    status, info = original(request)
    return status, replace(info, sender_tag=0)


@call("ucp_tag_probe_nb", "ucp_tag_probe_nb.a_removed_message_*", "ucp_tag_msg_recv_nb.a_probed_message_*")
def probes_never_remove(original, worker, tag, mask, remove):
    return original(worker, tag, mask, 0)


@call("ucp_tag_probe_nb", "ucp_tag_probe_nb.what_was_not_removed_*")
def probes_always_remove(original, worker, tag, mask, remove):
    return original(worker, tag, mask, 1)


@call("ucp_tag_probe_nb", "ucp_tag_probe_nb.bits_of_the_mask_*")
def probes_ignore_masks(original, worker, tag, mask, remove):
    return original(worker, tag, ALL if mask else 0, remove)


@call("ucp_tag_msg_recv_nbx", "ucp_tag_msg_recv_nbx.nbx_of_a_message_*")
def received_messages_have_no_request(original, worker, buffer, count, message, param):
    original(worker, buffer, count, message, param)


# Active messages


@breaks("ucp_am_recv_data_nbx.data_that_is_there_*")
def what_is_received_at_once_calls_back(patch):
    patch.setattr(AmReceive, "end_at_once", lambda self, status, read: self.end(status))


@call("ucp_am_send_nbx", "ucp_am_send_nbx.the_header_comes_*", "ucp_am_send_nbx.a_header_may_come_alone")
def headers_are_lost(original, ep, id, header, header_length, buffer, count, param):
    return original(ep, id, None, 0, buffer, count, param)


@call("ucp_am_send_nb", "ucp_am_send_nb.a_reply_endpoint_*")
def flags_of_active_messages_are_ignored(original, ep, id, buffer, count, datatype, cb, flags):
    return original(ep, id, buffer, count, datatype, cb, 0)


@call("ucp_am_send_nbx", "ucp_worker_set_am_recv_handler.the_id_decides_*")
def all_messages_have_one_id(original, ep, id, *arguments):
    return original(ep, 5 if 0 <= id < 1 << 16 else id, *arguments)


@call("ucp_worker_set_am_handler", "ucp_worker_set_am_handler.the_handler_gets_its_argument")
def handlers_lose_their_argument(original, worker, id, cb, arg, flags):
    original(worker, id, cb, None, flags)


@breaks("ucp_am_data_release.a_released_rendezvous_*", "ucp_am_data_release.only_kept_data_*")
def nothing_is_released(patch):
    patch.setattr(ActiveMessages, "release", lambda self, data: None)


# Streams


@breaks("ucp_stream_recv_nb.whole_elements_*", "ucp_stream_recv_nbx.whole_elements_*")
def elements_are_cut(patch):
    def satisfied(self):
        return self.received == self.length or (not self.whole and self.received > 0)

    patch.setattr(StreamReceive, "satisfied", property(satisfied))


@breaks("ucp_stream_recv_nbx.waitall_*", "ucp_stream_recv_nb.waitall_*")
def waitall_is_ignored(patch):
    def satisfied(self):
        return self.received > 0

    patch.setattr(StreamReceive, "satisfied", property(satisfied))


@breaks("ucp_stream_recv_nbx.the_callback_is_told_*", "ucp_stream_recv_nb.the_callback_is_told_*")
def callbacks_of_streams_are_notified_of_no_length(patch):
    patch.setattr(StreamReceive, "told", lambda self: (0,))


@breaks("ucp_stream_data_release.data_is_released_once", "ucp_stream_data_release.only_what_was_returned_*")
def anything_can_be_released(patch):
    patch.setattr(Streams, "release", lambda self, endpoint, data: None)


@call("ucp_stream_worker_poll", "ucp_stream_worker_poll.no_more_endpoints_*")
def polls_tell_all(original, worker, most, flags):
    return original(worker, 100 if most >= 0 else most, flags)


# Memory


@call("ucp_put_nbi", "ucp_put_nbi.the_block_is_stored_*", "ucp_put_nbi.many_operations_*")
def puts_lose_their_last_byte(original, ep, buffer, length, address, rkey):
    return original(ep, buffer, max(length - 1, 0), address, rkey)


@call("ucp_get_nbx", "ucp_get_nbx.the_block_is_loaded")
def gets_are_one_byte_off(original, ep, buffer, count, address, rkey, param=None):
    return original(ep, buffer, count, address + 1, rkey, param)


@call("ucp_put_nbx", "ucp_put_nbx.elements_are_bytes_*")
def elements_of_puts_are_bytes(original, ep, buffer, count, address, rkey, param=None):
    return original(ep, buffer, count, address, rkey)


@call("ucp_atomic_post", "ucp_atomic_post.post_does_and_or_and_xor")
def post_takes_numbers_of_the_other_calls(original, ep, opcode, *arguments):
    return original(ep, ucp.ucp_atomic_post_op_t((int(opcode) + 1) % 4), *arguments)


@call("ucp_atomic_fetch_nb", "ucp_atomic_fetch_nb.fetch_compares_and_swaps")
def swaps_do_not_compare(original, ep, opcode, value, result, *arguments):
    if opcode == ucp.UCP_ATOMIC_FETCH_OP_CSWAP:
        opcode, value = ucp.UCP_ATOMIC_FETCH_OP_SWAP, int.from_bytes(result, "little")
    return original(ep, opcode, value, result, *arguments)


@call("ucp_atomic_op_nbx", "ucp_atomic_op_nbx.op_takes_one_element")
def atomics_take_any_count(original, ep, opcode, buffer, count, *arguments):
    return original(ep, opcode, buffer, 1, *arguments)


@breaks(
    "ucp_ep_flush_nb.all_before_*", "ucp_worker_flush_nbx.it_calls_back_*", "ucp_worker_flush_nb.a_worker_flushes_*"
)
def flushes_do_not_wait(patch):
    def look(self):
        if not self.done:
            self.complete(ucp.UCS_OK)
        return True

    patch.setattr(Flush, "look", look)


@breaks("ucp_ep_flush_nbx.it_tells_an_error_once", "ucp_worker_flush_nb.it_tells_an_error_once")
def flushes_tell_no_errors(patch):
    patch.setitem(Flush.look.__globals__, "_outcome", lambda lanes: ucp.UCS_OK)


@call("ucp_mem_map", "ucp_mem_map.rights_are_kept", "ucp_atomic_post.memory_that_peers_*")
def rights_are_ignored(original, context, params):
    return original(context, replace(params, prot=None))


@call("ucp_mem_unmap", "ucp_mem_unmap.unmapped_memory_*")
def memory_stays_mapped(original, context, memh):
    pass


@breaks("ucp_ep_rkey_unpack.a_key_is_of_one_endpoint")
def keys_are_of_all_endpoints(patch):
    def put_nb(original, ep, buffer, length, address, rkey, cb):
        endpoint = rkey.endpoint if isinstance(rkey, RemoteKey) else ep
        return original(endpoint, buffer, length, address, rkey, cb)

    patch.setattr(ucp, "ucp_put_nb", functools.partial(put_nb, ucp.ucp_put_nb))


@breaks("ucp_mem_advise.advice_is_about_mapped_memory")
def advice_is_about_anything(patch):
    patch.setattr(Memory, "contains", lambda self, address, length: True)


@call("ucp_rkey_destroy", "ucp_rkey_destroy.a_destroyed_key_*")
def keys_are_not_destroyed(original, rkey):
    pass


# The rest


@call("ucp_ep_close_nbx", "ucp_ep_close_nbx.a_closed_endpoint_*")
def endpoints_stay_open(original, ep, param):
    pass


@breaks("ucp_worker_progress.progress_tells_*")
def progress_always_says_1(patch):
    def progress(original, worker):
        original(worker)
        return 1

    patch.setattr(ucp, "ucp_worker_progress", functools.partial(progress, ucp.ucp_worker_progress))


@call("ucp_worker_arm", "ucp_worker_arm.arming_is_busy_*")
def arming_is_never_busy(original, worker):
    pass


@call("ucp_worker_destroy", "ucp_worker_destroy.a_destroyed_worker_*")
def workers_are_not_destroyed(original, worker):
    assert isinstance(worker, Worker)


@call("ucp_listener_reject", "ucp_listener_reject.a_rejected_client_*", "ucp_conn_request_query.who_calls_*")
def rejections_are_kept_quiet(original, listener, conn_request):
    pass


@call("ucp_config_modify", "ucp_config_modify.one_key_is_changed")
def configurations_do_not_change(original, config, name, value):
    pass
