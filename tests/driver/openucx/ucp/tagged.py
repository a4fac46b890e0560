"""Helpers of tests of tagged messages."""

import amoeba.ucp as ucp

from tests.driver.openucx.ucp.entities import Entity, wait_for

ALL = 2**64 - 1
OK, IN_PROGRESS = ucp.UcsStatus.UCS_OK, ucp.UcsStatus.UCS_INPROGRESS
PAYLOAD = 4096
BYTE = ucp.ucp_dt_make_contig(1)


def send(entity, tag, data, **param):
    """Send bytes on the entity's endpoint."""
    return ucp.ucp_tag_send_nbx(entity.ep, data, len(data), tag, ucp.ucp_request_param_t(**param))


def receive(entity, buffer, tag, mask=ALL, **param):
    """Receive bytes at the entity's worker."""
    return ucp.ucp_tag_recv_nbx(entity.worker, buffer, len(buffer), tag, mask, ucp.ucp_request_param_t(**param))


def probe(entity, tag, mask=ALL, *, remove=False):
    """(message, info) of the oldest message that waits."""
    return ucp.ucp_tag_probe_nb(entity.worker, tag, mask, remove)


def settle(*entities):
    """Until nothing goes on any more."""
    quiet = 0
    while quiet < 20:
        quiet = 0 if sum(entity.progress() for entity in entities) else quiet + 1


def arrive(sender, receiver, messages):
    """Send messages that nobody receives, and let them come; what the calls returned."""
    requests = [send(sender, tag, data) for tag, data in messages]
    wait_for(lambda: sender.ep.tagged.idle, sender, receiver)  # all have been delivered
    settle(sender, receiver)
    return requests


def couple_of(adapters):
    """(sender, receiver), connected both ways."""
    sender, receiver = Entity(adapters[0]), Entity(adapters[1])
    sender.connect(receiver)
    receiver.connect(sender)
    return sender, receiver
