"""Wakeup: ucp_worker_get_efd, _wait, _wait_mem, _arm, _signal."""

import select

import amoeba.ucp as ucp

from amoeba_tools.conformance.expectations import expect_equal
from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions.common import INVALID
from amoeba_tools.conformance.ucp.pair import ALL_FEATURES, Entity, Pair
from amoeba_tools.conformance.ucp.registry import Function

get_efd = Function("ucp_worker_get_efd", 2251)
wait = Function("ucp_worker_wait", 2282)
wait_mem = Function("ucp_worker_wait_mem", 2308)
arm = Function("ucp_worker_arm", 2380)
signal = Function("ucp_worker_signal", 2401)


def sleeper(pair: Pair) -> Entity:
    """Open an entity whose worker can be woken."""
    return pair.entity(0, int(ALL_FEATURES | ucp.UCP_FEATURE_WAKEUP))


def armed(pair: Pair, entity: Entity) -> None:
    """Make progress until the worker may sleep."""

    def tried() -> bool:
        try:
            ucp.ucp_worker_arm(entity.worker)
        except ucp.UcsBusyError:
            return False
        return True

    pair.wait(tried, "an armed worker")


def readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


@get_efd.says(2226, "The file descriptor will get signaled when an event occurs, as part of the wake-up mechanism.")
def the_descriptor_tells_of_a_signal(pair: Pair) -> None:
    """Get the same descriptor each time, which is not readable before the signal."""
    entity = sleeper(pair)
    descriptor = ucp.ucp_worker_get_efd(entity.worker)
    expect_equal("again", ucp.ucp_worker_get_efd(entity.worker), descriptor)
    armed(pair, entity)
    expect_equal("before", readable(descriptor), False)
    ucp.ucp_worker_signal(entity.worker)
    expect_equal("afterwards", readable(descriptor), True)


@get_efd.says(2243, "UCP features have to be triggered with UCP_FEATURE_WAKEUP to select proper transport")
def the_feature_is_needed(pair: Pair) -> None:
    """Call every function of the group without the feature: INVALID_PARAM."""
    worker = pair.near.worker
    for call in (ucp.ucp_worker_get_efd, ucp.ucp_worker_arm, ucp.ucp_worker_wait, ucp.ucp_worker_signal):
        with expect_status(call.__name__, INVALID):
            call(worker)


@signal.says(
    2388,
    "This function causes a blocking call to ucp_worker_wait or waiting on a file descriptor from "
    "ucp_worker_get_efd to return, even if no event from the underlying interfaces has taken place.",
)
def a_signal_ends_a_wait(pair: Pair) -> None:
    """Signal before the call, without any event."""
    entity = sleeper(pair)
    armed(pair, entity)
    ucp.ucp_worker_signal(entity.worker)
    ucp.ucp_worker_wait(entity.worker)


@wait.says(2258, "This routine waits (blocking) until an event has happened, as part of the wake-up mechanism.")
def a_wait_ends_with_a_signal(pair: Pair) -> None:
    """Wait twice, each time for a new signal."""
    entity = sleeper(pair)
    for _ in range(2):
        armed(pair, entity)
        ucp.ucp_worker_signal(entity.worker)
        ucp.ucp_worker_wait(entity.worker)


@arm.says(2373, "UCS_ERR_BUSY There are unprocessed events which prevent the file descriptor from being armed.")
def arming_is_busy_after_a_signal(pair: Pair) -> None:
    """Arm after a signal; with progress it can be armed again."""
    entity = sleeper(pair)
    armed(pair, entity)
    ucp.ucp_worker_signal(entity.worker)
    with expect_status("arming", ucp.UcsStatus.UCS_ERR_BUSY):
        ucp.ucp_worker_arm(entity.worker)
    armed(pair, entity)


@wait_mem.says(
    2290,
    'The routine returns when the memory address is updated ("write") or an event occurs in the system.',
)
def waiting_for_memory_ends_with_an_event(pair: Pair) -> None:
    """Wait for a signal; invalid memory is INVALID_PARAM."""
    entity = sleeper(pair)
    armed(pair, entity)
    ucp.ucp_worker_signal(entity.worker)
    ucp.ucp_worker_wait_mem(entity.worker, bytearray(8))
    with expect_status("no memory", INVALID):
        ucp.ucp_worker_wait_mem(entity.worker, bytearray())
