"""Contexts (group CONTEXT of ucp.h)."""

import sys
from typing import TextIO

from amoeba.core.errors import FabricError
from amoeba.openucx.ucp.adapter import Adapter, default_adapter
from amoeba.openucx.ucp.config import taken_config, ucp_config_t
from amoeba.openucx.ucp.constants import ucp_feature, ucs_memory_type_t
from amoeba.openucx.ucp.context import REQUEST_SIZE, Context
from amoeba.openucx.ucp.library import UCP_API_MAJOR, UCP_API_MINOR
from amoeba.openucx.ucp.status import invalid_param, ucs_error_of, wrong_type
from amoeba.openucx.ucp.structures import ucp_context_attr_t, ucp_params_t

__all__ = [
    "ucp_cleanup",
    "ucp_context_print_info",
    "ucp_context_query",
    "ucp_init",
    "ucp_init_version",
]


def ucp_init_version(
    api_major_version: int,
    api_minor_version: int,
    params: ucp_params_t,
    config: ucp_config_t | None = None,
    *,
    adapter: Adapter | None = None,
) -> Context:
    """Make a context. Only ``params.features`` is required.

    ``api_major_version``, ``api_minor_version``: another version than this API's is accepted. ``config`` is copied;
    None: as :func:`ucp_config_read` finds it. ``adapter``: the NIC to work through, from
    :func:`amoeba.ucp.open_adapters`. None: the process's own NIC, which the first context opens as the configuration
    says (``DEVICE``, ``LINK_HOST``, ``LINK_PORT``).

    Raises INVALID_PARAM without features and for wrong types, NO_RESOURCE if the NIC can hold no more contexts
    (ucp.h, group CONTEXT).
    """
    for name, version in (("api_major_version", api_major_version), ("api_minor_version", api_minor_version)):
        if isinstance(version, bool) or not isinstance(version, int):
            raise wrong_type(name, "a number", version)
    taken = ucp_params_t.taken(params)
    if taken.features is None:
        raise invalid_param("params.features: expected the features that will be used, got none")
    settings = taken_config(config)
    if adapter is None:
        try:
            adapter = default_adapter(
                settings.value("DEVICE"), host=settings.value("LINK_HOST"), port=settings.value("LINK_PORT")
            )
        except FabricError as error:
            raise ucs_error_of(error) from error
    elif not isinstance(adapter, Adapter):
        raise wrong_type("adapter", "an Adapter, as open_adapters() has them", adapter)
    return Context(adapter, ucp_feature(taken.features), taken, settings)


def ucp_init(params: ucp_params_t, config: ucp_config_t | None = None, *, adapter: Adapter | None = None) -> Context:
    """Make a context: :func:`ucp_init_version` with the version of this API (ucp.h, group CONTEXT)."""
    return ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, params, config, adapter=adapter)


def checked_context(context: Context) -> Context:
    """Return the context if it is open. Raises INVALID_PARAM."""
    if not isinstance(context, Context):
        raise wrong_type("context", "a context, as ucp_init() returns it", context)
    context._check_open()
    return context


def ucp_cleanup(context_p: Context) -> None:
    """Close a context, and everything made from it that is still open (ucp.h, group CONTEXT)."""
    checked_context(context_p).close()


def ucp_context_query(context_p: Context, attr: ucp_context_attr_t) -> ucp_context_attr_t:
    """Fill ``attr`` with the fields of its mask, without a mask with all, and return it (ucp.h, group CONTEXT)."""
    context = checked_context(context_p)
    attr = ucp_context_attr_t.expected(attr)
    return attr.fill(
        request_size=REQUEST_SIZE,
        thread_mode=context.thread_mode,
        memory_types=1 << ucs_memory_type_t.UCS_MEMORY_TYPE_HOST,
        name=context.name,
    )


def ucp_context_print_info(context: Context, stream: TextIO | None = None) -> None:
    """Print to ``stream`` what the context is and works through (ucp.h, group CONTEXT)."""
    print(checked_context(context).describe(), file=sys.stdout if stream is None else stream)
