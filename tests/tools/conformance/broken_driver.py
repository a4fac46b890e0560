"""A driver broken anywhere but where it sends and receives."""

from dataclasses import replace

import numpy as np
from amoeba import (
    AddressVector,
    BindFlags,
    CompletionQueue,
    Counter,
    CqErrEntry,
    Domain,
    Endpoint,
    Errno,
    EventQueue,
    Fabric,
    FabricAttr,
    Op,
    OpFlags,
    PollSet,
    fi,
    open_cluster,
)
from amoeba.core.buffers import address_of
from amoeba.libfabric.objects import info
from amoeba.libfabric.objects.connections import Connection
from amoeba.libfabric.objects.constants import EqFlags
from amoeba.libfabric.objects.deferral import Deferral, DeferralQueue
from amoeba.libfabric.objects.domain import MemoryRegion
from amoeba.libfabric.objects.endpoints.passive import PassiveEndpoint
from amoeba.libfabric.objects.endpoints.transmit import EndpointAlias
from amoeba.libfabric.objects.names import Service
from amoeba.libfabric.objects.operations import local_buffers, operations
from amoeba.libfabric.objects.operations.atomics import AtomicOperations
from amoeba.libfabric.objects.operations.operations import Operations
from amoeba.nic.event_counters import EventCounters
from amoeba.nic.free_numbers import FreeNumbers
from amoeba.nic.key_table import KeyTable
from amoeba.transport.rings import ContextRings
from amoeba.transport.sharing import RingShare
from amoeba_model.nic import event_counters
from amoeba_model.registers import KeyFlags
from amoeba_model.wire.uet import RequestOpcode

from tests.tools.conformance.sabotage import around, breaks


@breaks("fi_rma.write_stores_these_bytes_and_no_others", "fi_rma.long_writes_arrive_whole", "fi_cq.msg_format_*")
def writes_lose_their_last_byte(patch):
    def write(self, original, buf, *arguments, **keywords):
        original(self, memoryview(buf)[:-1], *arguments, **keywords)

    around(patch, Endpoint, "write", write)


@breaks("fi_rma.inject_write_has_taken_*", "fi_rma.inject_writedata_tells_*", "fi_atomic.inject_flag_takes_*")
def injected_operands_are_used_in_place(patch):
    def bounce(self, original, views, offset=0):
        self.nic.dma.grant(address_of(views[0]), views[0].nbytes, writable=False, whose=None)
        return address_of(views[0])

    around(patch, ContextRings, "bounce", bounce)


@breaks("fi_mr.writes_need_remote_write", "fi_atomic.base_atomics_need_memory_that_peers_may_write")
def peers_may_write_everything(patch):
    def store(self, original, key, start, length, domain, flags):
        return original(self, key, start, length, domain, flags | KeyFlags.REMOTE_WRITE)

    around(patch, KeyTable, "store", store)


@breaks("fi_mr.reads_need_remote_read", "fi_atomic.fetching_atomics_need_memory_that_peers_may_read")
def peers_may_read_everything(patch):
    def store(self, original, key, start, length, domain, flags):
        return original(self, key, start, length, domain, flags | KeyFlags.REMOTE_READ)

    around(patch, KeyTable, "store", store)


@breaks("fi_mr.accesses_outside_the_region_are_refused", "fi_mr.the_last_byte_is_within_the_region")
def regions_are_one_byte_short(patch):
    def store(self, original, key, start, length, domain, flags):
        return original(self, key, start, max(length - 1, 1), domain, flags)

    around(patch, KeyTable, "store", store)


@breaks("fi_mr.regions_of_another_domain_are_out_of_reach")
def all_domains_are_one(patch):
    take, release = FreeNumbers.take, FreeNumbers.release

    def of_domains(numbers):
        return "domains" in numbers._what

    patch.setattr(FreeNumbers, "take", lambda self: 7 if of_domains(self) else take(self))
    patch.setattr(
        FreeNumbers, "release", lambda self, number: None if of_domains(self) else release(self, number)
    )


@breaks("fi_mr.closed_regions_are_out_of_reach", "fi_mr.a_region_may_be_closed_under_traffic")
def keys_outlive_their_regions(patch):
    patch.setattr(KeyTable, "remove", lambda self, key: None)


@breaks("fi_atomic.cswap_le_*", "fi_atomic.cswap_ge_*")
def comparisons_are_the_wrong_way_round(patch):
    """As libfabric's own were until 1.7."""
    swapped = {Op.FI_CSWAP_LE: Op.FI_CSWAP_GE, Op.FI_CSWAP_GE: Op.FI_CSWAP_LE}

    def compare(self, original, buf, compare, result, peer, addr, key, op, *arguments, **keywords):
        original(self, buf, compare, result, peer, addr, key, swapped.get(op, op), *arguments, **keywords)

    around(patch, AtomicOperations, "compare_atomic", compare)


@breaks("fi_atomic.sum_adds", "fi_atomic.fetching_arrays_returns_every_initial_value")
def fetched_values_are_the_new_ones(patch):
    """As in fabtests, until results were compared."""

    def fetch(self, original, buf, result, peer, addr, key, op, *arguments, **keywords):
        if op is not Op.FI_SUM:
            return original(self, buf, result, peer, addr, key, op, *arguments, **keywords)
        self.atomic(buf, peer, addr, key, op, flags=OpFlags.FI_MORE)
        return original(self, np.zeros_like(buf), result, peer, addr, key, op, *arguments, **keywords)

    around(patch, AtomicOperations, "fetch_atomic", fetch)


@breaks("fi_endpoint.successes_are_not_reported_on_a_selective_queue", "fi_rma.completion_flag_reports_*")
def every_success_is_reported(patch):
    def bind(self, original, target, flags=BindFlags.FI_TRANSMIT):
        original(self, target, flags & ~BindFlags.FI_SELECTIVE_COMPLETION)

    around(patch, Endpoint, "bind", bind)


@breaks("fi_rma.inject_write_is_not_reported", "fi_atomic.inject_atomic_is_not_reported")
def injected_operations_are_reported(patch):
    def check(self, original, flags, length, addr, key, silent, *arguments):
        bits, _ = original(self, flags, length, addr, key, silent, *arguments)
        return bits, False

    around(patch, Operations, "_check_request", check)


@breaks("fi_mr.local_use_needs_the_right_access", "fi_mr.buffers_outside_their_descriptor_are_refused")
def descriptors_are_not_looked_at(patch):
    for users in (local_buffers, operations):
        patch.setattr(users, "check_region", lambda desc, address, length, access: None)


@breaks("fi_cq.every_field_of_an_error_entry_is_right", "fi_cq.error_entries_have_*")
def error_entries_have_no_flags(patch):
    def readerr(self, original) -> CqErrEntry | None:
        entry = original(self)
        return None if entry is None else entry._replace(flags=0)

    around(patch, CompletionQueue, "readerr", readerr)


@breaks("fi_cq.contexts_come_back_as_they_are", "fi_rma.every_operation_reports_its_own_context")
def contexts_are_lost(patch):
    def write(self, original, *arguments, context=None, **keywords):
        original(self, *arguments, context="lost", **keywords)

    around(patch, Endpoint, "write", write)


@breaks("fi_cq.signal_ends_*", "fi_cq.signal_without_*")
def signals_go_unheard(patch):
    patch.setattr(CompletionQueue, "signal", lambda self: None)


@breaks("fi_cq.the_source_of_*")
def sources_are_wrong(patch):
    patch.setattr(AddressVector, "_number_of", lambda self, ip, context: 3)


@breaks("fi_cntr.adderr_adds_errors", "fi_cntr.wait_ends_when_another_thread_*")
def errors_are_counted_as_successes(patch):
    patch.setattr(Counter, "adderr", Counter.add)


@breaks("fi_cntr.failures_are_counted_apart", "fi_cntr.wait_ends_when_an_operation_fails")
def failures_are_not_counted(patch):
    def value(self, original, number):
        return original(self, number)[0], 0

    around(patch, EventCounters, "value", value)


@breaks("fi_av.the_lowest_unused_number_is_given_next")
def numbers_are_never_reused(patch):
    patch.setattr(AddressVector, "_free_number", lambda self: self._inserted)


@breaks("fi_av.addresses_are_printable")
def addresses_read_alike(patch):
    patch.setattr(AddressVector, "straddr", lambda self, address: "an address")


@breaks("fi_eq.peek_leaves_the_event")
def peeking_takes_the_event(patch):
    def consume(self, original, flags):
        original(self, EqFlags(0))

    around(patch, EventQueue, "_consume", consume)


@breaks("fi_eq.an_overrun_queue_*")
def event_queues_forget_without_a_word(patch):
    def append(self, original, entry):
        original(self, entry)
        self._overrun = False

    around(patch, EventQueue, "_append", append)


@breaks("fi_endpoint.a_full_endpoint_*", "fi_endpoint.a_refused_operation_*")
def full_rings_are_an_error_of_another_kind(patch):
    def check(self, original, descriptors=1):
        try:
            original(self, descriptors)
        except BlockingIOError as error:
            raise type("Full", (OSError,), {})(int(Errno.FI_ENOBUFS), str(error)) from None

    around(patch, ContextRings, "check_space", check)


@breaks("fi_getinfo.limits_beyond_what_there_is_*")
def limits_are_not_compared(patch):
    patch.setattr(info, "_RULES", {kind: dict.fromkeys(rules, info._whatever) for kind, rules in info._RULES.items()})


@breaks("fi_getinfo.other_primary_capabilities_*", "fi_getinfo.without_modifiers_*")
def all_capabilities_are_granted(patch):
    patch.setattr(info, "_capabilities", lambda wanted, offered: offered)


@breaks("fi_endpoint.operations_through_a_shared_context_end_*")
def what_completes_belongs_to_whoever_takes_it(patch):
    """Of endpoints that share a ring."""

    def absorb(self):
        taken = []
        self._ring.poll(self.entries, taken)
        for completed in taken:
            self._receive(completed)
        return 0

    patch.setattr(RingShare, "absorb", absorb)


@breaks("fi_fabric.numbers_are_printed_*", "fi_fabric.infos_are_printed_*", "fi_fabric.the_version_is_printed_*")
def values_are_printed_as_python_prints_them(patch):
    patch.setattr(fi.info, "tostr", lambda value, kind=None: repr(value))


@breaks("fi_fabric.objects_are_printed")
def objects_are_printed_by_their_kind(patch):
    patch.setattr(fi.info, "tostr", lambda value, kind=None: str(kind))


@breaks("fi_fabric.the_version_of_the_interface_*")
def nobody_is_asked_for_a_version(patch):
    patch.setattr(fi, "fi_getinfo", lambda version, *arguments: fi.info.fi_getinfo(fi.fi_version(), *arguments))


@breaks("fi_fabric.what_belongs_to_a_fabric_*")
def fabrics_forget_their_event_queues(patch):
    def adopt(self, original, child):
        if not isinstance(child, EventQueue):
            original(self, child)

    around(patch, Fabric, "_adopt", adopt)


@breaks("fi_fabric.a_closed_fabric_*")
def closed_fabrics_open_event_queues(patch):
    patch.setattr(Fabric, "eq_open", lambda self: None)


@breaks("fi_fabric.a_fabric_is_opened_by_its_attributes")
def fabrics_have_any_name(patch):
    def opened(attr):
        fabric = open_cluster()
        if attr.name == "nobody's":
            fabric.close()
        return fabric

    patch.setattr(fi, "fi_fabric", opened)


@breaks("fi_fabric.hints_choose_fabric_and_provider_*", "fi_fabric.the_providers_version_*", "fi_fabric.all_nics_*")
def fabrics_have_no_attributes(patch):
    def getinfo(self, original, *arguments, **keywords):
        return [
            replace(found, fabric_attr=FabricAttr(name=str(number), prov_name="amoeba"))
            for number, found in enumerate(original(self, *arguments, **keywords))
        ]

    around(patch, Fabric, "getinfo", getinfo)


@breaks("fi_trigger.a_triggered_operation_waits_*", "fi_trigger.work_is_done_when_*", "fi_trigger.buffers_are_read_*")
def nothing_waits_for_its_counter(patch):
    patch.setattr(Deferral, "due", True)


@breaks("fi_trigger.work_waits_for_errors_too")
def errors_do_not_trigger(patch):
    def start(self, original, *arguments, with_errors=False, **keywords):
        original(self, *arguments, **keywords)

    around(patch, Deferral, "__init__", start)


@breaks("fi_av.services_are_inserted_node_by_node", "fi_av.an_endpoint_is_inserted_by_its_names")
def services_are_all_the_same(patch):
    patch.setattr(Service, "at", lambda self, address: replace(address, resource_index=99))


@breaks("fi_mr.keys_can_be_told_as_bytes", "fi_mr.mapped_keys_reach_the_region")
def raw_keys_are_mapped_backwards(patch):
    patch.setattr(Domain, "map_raw", lambda self, base_addr, raw_key: int.from_bytes(raw_key, "big"))


@breaks("fi_getinfo.a_node_becomes_the_destination")
def destinations_are_not_told(patch):
    patch.setattr(info, "_towards", lambda hints, *arguments: hints)


@breaks("fi_poll.queues_with_entries_*", "fi_poll.queues_with_errors_*", "fi_poll.a_wait_ends_with_an_entry")
def what_is_there_is_not_seen(patch):
    patch.setattr(CompletionQueue, "_may_wait", lambda self: True)


@breaks("fi_poll.changed_counters_*", "fi_poll.no_more_are_polled_*")
def counters_are_named_again_and_again(patch):
    def ready(self, original, count):
        self._counters = dict.fromkeys(self._counters, (-1, -1))
        return original(self, count)

    around(patch, PollSet, "_ready", ready)


@breaks("fi_cq.a_threshold_is_waited_for")
def thresholds_are_not_heeded(patch):
    def wait(self, original, count, timeout, cond):
        return original(self, count, timeout, None)

    around(patch, CompletionQueue, "_wait", wait)


@breaks("fi_trigger.cancelled_work_*", "fi_trigger.cancelled_receives_*", "fi_trigger.flushed_work_*")
def work_is_never_withdrawn(patch):
    patch.setattr(DeferralQueue, "withdraw", lambda self, chosen: [None])


@breaks("fi_*.flags_of_messages_override_those_of_the_endpoint")
def endpoints_flags_stay(patch):
    patch.setattr(Operations, "_silent", lambda self, overrides: self._selective)


@breaks("fi_atomic.updates_are_visible_when_a_counter_says_so", "fi_endpoint.operations_of_peers_are_counted")
def peers_fetches_are_counted_as_changes(patch):
    patch.setattr(event_counters, "_WRITES", tuple(RequestOpcode))


@breaks("fi_endpoint.an_alias_has_flags_of_its_own")
def aliases_have_no_flags(patch):
    patch.setattr(Endpoint, "alias", lambda self, op_flags: EndpointAlias(self))


@breaks("fi_mr.accesses_to_a_region_are_counted")
def regions_are_not_counted(patch):
    patch.setattr(MemoryRegion, "bind", lambda self, counter, flags: None)


@breaks("fi_cm.a_rejected_request_*", "fi_cm.parameters_go_*", "fi_cm.longer_parameters_*", "fi_cm.calls_take_*")
def refusals_say_nothing(patch):
    around(patch, PassiveEndpoint, "reject", lambda self, original, handle, param=b"": original(self, handle))


@breaks("fi_cm.requests_beyond_the_backlog_are_refused")
def backlogs_are_without_end(patch):
    patch.setattr(PassiveEndpoint, "_full", False)


@breaks("fi_*.connected_endpoints_ignore_who_is_meant")
def connected_endpoints_look_at_numbers(patch):
    patch.setattr(Connection, "destination", lambda self: 12345)
