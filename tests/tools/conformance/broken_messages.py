"""A driver broken where it sends and receives."""

from dataclasses import replace

from amoeba import BindFlags, CompletionQueue, CqErrEntry, OpFlags
from amoeba.libfabric.objects.endpoints.scalable import ReceiveContext, ScalableEndpoint
from amoeba.libfabric.objects.endpoints.shared_receive import SharedReceiveContext
from amoeba.libfabric.objects.operations.messages import MessageOperations
from amoeba.libfabric.objects.operations.receiving import ReceiveOperations
from amoeba.libfabric.objects.queues.counters import Counters
from amoeba.libfabric.objects.receiver import Receiver
from amoeba.nic.context_table import ContextTable
from amoeba.transport import shared_receives
from amoeba.transport.peers import PeerMap
from amoeba.transport.receives import Receives
from amoeba.transport.shared_receives import SharedReceives
from amoeba_model.descriptors import ReceiveFlags

from tests.tools.conformance.broken_driver import injected_operands_are_used_in_place
from tests.tools.conformance.sabotage import around, breaks


@breaks("fi_msg.inject_has_*", "fi_msg.injectdata_*", "fi_tagged.tinject*")
def injected_messages_are_used_in_place(patch):
    injected_operands_are_used_in_place(patch)


@breaks(
    "fi_msg.*_does_not_fit_is_cut", "fi_msg.a_receive_of_no_bytes_*", "fi_tagged.tagged_messages_that_do_not_fit_*"
)
def what_is_cut_off_is_not_told(patch):
    def readerr(self, original) -> CqErrEntry | None:
        entry = original(self)
        return None if entry is None else entry._replace(olen=0)

    around(patch, CompletionQueue, "readerr", readerr)


@breaks("fi_tagged.tags_match_*", "fi_tagged.ignored_bits_*", "fi_tagged.trecvmsg_*")
def masks_are_not_looked_at(patch):
    masking(patch, lambda receive: setattr(receive, "ignore", 0))


@breaks(
    "fi_tagged.a_receive_without_mask_*", "fi_tagged.the_message_sent_first_*", "fi_tagged.messages_with_one_tag_*"
)
def tags_are_not_looked_at(patch):
    masking(patch, lambda receive: setattr(receive, "ignore", 2**64 - 1 if receive.tagged else 0))


@breaks("fi_msg.a_directed_receive_*", "fi_tagged.a_directed_tagged_receive_*")
def sources_of_receives_are_not_looked_at(patch):
    masking(patch, take_from_anybody)


def take_from_anybody(receive):
    receive.flags &= ~int(ReceiveFlags.DIRECTED)


def masking(patch, change):
    """Post other receives than were asked for."""

    def post(self, original, receive, *arguments):
        change(receive)
        original(self, receive, *arguments)

    around(patch, Receives, "post", post)


@breaks(
    "fi_endpoint.messages_of_all_transmit_*",
    "fi_endpoint.a_directed_*",
    "fi_endpoint.messages_through_a_shared_*",
)
def senders_are_known_by_the_context_of_their_ring(patch):
    def add(self, original, number, address):
        self._initiator = self._rings.context
        original(self, number, address)

    around(patch, PeerMap, "add", add)


@breaks(
    "fi_endpoint.receives_end_in_the_queue_*",
    "fi_endpoint.shared_receives_are_counted_*",
    "fi_endpoint.long_messages_meet_shared_*",
    "fi_endpoint.searches_of_a_shared_*",
)
def all_shared_receives_are_the_first_endpoints(patch):
    patch.setattr(SharedReceives, "outlet_of", lambda self, event: next(iter(self.shares.values())).outlet)


@breaks("fi_endpoint.messages_for_any_endpoint_*", "fi_endpoint.both_contexts_may_be_shared")
def endpoints_keep_their_messages_to_themselves(patch):
    """And have no receives for them."""

    def enable(self, original, context, settings):
        original(self, context, replace(settings, receive_context=None))

    around(patch, ContextTable, "enable", enable)


@breaks("fi_endpoint.closing_an_endpoint_leaves_shared_*")
def messages_outlive_their_endpoint(patch):
    patch.setattr(shared_receives, "empty", lambda *arguments: True)
    patch.setattr(shared_receives, "refuse_all", lambda *arguments: False)


@breaks("fi_endpoint.a_scalable_endpoint_may_share_*")
def scalable_endpoints_receive_for_themselves(patch):
    patch.setattr(ReceiveContext, "_share_receives", lambda self, shared: None)


@breaks("fi_endpoint.a_scalable_endpoint_is_bound_*")
def scalable_endpoints_take_whatever_they_are_bound_to(patch):
    patch.setattr(ScalableEndpoint, "bind", lambda self, fid: None)


@breaks("fi_endpoint.endpoints_with_different_*", "fi_endpoint.an_endpoint_is_capable_of_no_more_*")
def anybody_may_share_receives(patch):
    patch.setattr(SharedReceiveContext, "_check_joining", lambda self, caps, av: None)


@breaks("fi_msg.a_long_message_of_a_stranger_*")
def strangers_are_not_met(patch):
    patch.setattr(PeerMap, "meet", lambda self, number, address: number)


@breaks("fi_endpoint.a_receive_context_counts_*")
def receive_contexts_have_no_counters(patch):
    patch.setattr(ReceiveContext, "bind", lambda self, target, flags=None: bind_queue_alone(self, target))


def bind_queue_alone(context, target):
    if isinstance(target, CompletionQueue):
        context._bind_queue(target, BindFlags.FI_RECV)
        target._adopt(context)


@breaks("fi_endpoint.messages_come_to_the_receive_context_*")
def all_receive_contexts_are_the_first(patch):
    def find(self, original, number):
        return original(self, number & (1 << self.number_bits) - 1)

    around(patch, PeerMap, "find", find)


@breaks("fi_msg.messages_meet_receives_in_order", "fi_msg.unexpected_messages_keep_their_order")
def receives_are_posted_two_at_a_time_the_later_one_first(patch):
    held: list[tuple[object, ...]] = []

    def post(self, original, *arguments):
        held.append(arguments)
        if len(held) == 2:
            original(self, *held.pop())
            original(self, *held.pop())

    around(patch, Receives, "post", post)


@breaks("fi_msg.a_send_with_match_complete_*", "fi_tagged.a_tagged_send_with_match_complete_*")
def sends_complete_before_they_are_matched(patch):
    def check(self, original, flags, *arguments, **keywords):
        return original(self, flags & ~OpFlags.FI_MATCH_COMPLETE, *arguments, **keywords)

    around(patch, MessageOperations, "_checked_send", check)


@breaks("fi_msg.a_cancelled_receive_*", "fi_tagged.a_cancelled_tagged_receive_*")
def receives_are_not_cancelled(patch):
    patch.setattr(Receives, "cancel", lambda self, context: True)


@breaks("fi_tagged.a_claim_of_what_*")
def claims_are_for_everybody(patch):
    patch.setattr(Receives, "claim", lambda self, receive: self.claims[-1] if self.claims else None)


@breaks("fi_msg.receives_are_counted")
def what_only_the_driver_sees_is_not_counted(patch):
    patch.setattr(Counters, "count", lambda self, kind, status, told: None)


@breaks("fi_trigger.receives_can_be_triggered", "fi_trigger.receives_can_be_deferred")
def receives_do_not_wait(patch):
    def defer(self, receives, receive, buffers, bits):
        receive.context = receive.context.op_context
        self._post_receive(receives, receive, buffers, bits)

    patch.setattr(ReceiveOperations, "_defer_receive", defer)


@breaks("fi_trigger.receives_can_be_deferred", "fi_trigger.deferred_receives_are_reported_*")
def the_end_of_deferred_receives_is_missed(patch):
    def complete(self, original, receive, *arguments, **keywords):
        receive.ended = None
        original(self, receive, *arguments, **keywords)

    around(patch, Receives, "_complete", complete)


@breaks("fi_msg.src_addr_is_ignored_without_the_capability")
def every_receive_is_directed(patch):
    patch.setattr(Receiver, "directed", True)


@breaks("fi_msg.the_end_of_a_multi_receive_*")
def the_end_of_a_buffer_is_not_told(patch):
    def tell(self, original, outlet, receive, *arguments):
        if not receive.silent:
            original(self, outlet, receive, *arguments)

    around(patch, Receives, "_tell", tell)


@breaks("fi_tagged.a_discarded_message_completes_its_send", "fi_tagged.a_message_found_can_be_dropped")
def senders_are_not_notified_of_discards(patch):
    patch.setattr(Receives, "discard", lambda self, event, data: None)
