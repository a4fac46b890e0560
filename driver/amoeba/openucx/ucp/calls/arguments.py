"""Checks that calls of several groups share. They raise INVALID_PARAM before the call does anything."""

from typing import Any

from amoeba.openucx.ucp.constants import ucp_feature
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.kinds import unsigned
from amoeba.openucx.ucp.remote_key import RemoteKey
from amoeba.openucx.ucp.status import invalid_param, wrong_type

__all__ = ["U32", "U64", "checked_endpoint", "checked_key", "checked_target", "outside_callbacks"]

U32 = unsigned(32)
U64 = unsigned(64)


def checked_endpoint(ep: Any) -> Endpoint:
    """Return the endpoint if it is open and has not failed. Raises the failure of an endpoint that has one."""
    if not isinstance(ep, Endpoint):
        raise wrong_type("ep", "an endpoint, as ucp_ep_create() returns it", ep)
    ep.check()
    return ep


def checked_key(rkey: Any) -> RemoteKey:
    """Return the remote key if it is not destroyed."""
    if not isinstance(rkey, RemoteKey):
        raise wrong_type("rkey", "a remote key, as ucp_ep_rkey_unpack() returns it", rkey)
    if rkey.closed:
        raise invalid_param(f"rkey: {rkey!r} is destroyed")
    return rkey


def checked_target(ep: Any, remote_addr: Any, rkey: Any, feature: ucp_feature, what: str) -> tuple[RemoteKey, int]:
    """Return the key and the address of an operation on a peer's memory, which needs ``feature``."""
    endpoint = checked_endpoint(ep)
    endpoint.worker.context.need(feature, what)
    key = checked_key(rkey)
    if key.endpoint is not endpoint:
        raise invalid_param(f"rkey: {key!r} was unpacked on another endpoint than {endpoint!r}")
    return key, U64("remote_addr", remote_addr)


def outside_callbacks(ep: Any) -> None:
    """Raise INVALID_PARAM inside a callback of the endpoint's worker, where a call that waits would wait for ever."""
    if checked_endpoint(ep).worker.progressing:
        raise invalid_param("a call that waits was made inside a callback of progress")
