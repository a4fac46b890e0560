"""Library, configurations and contexts (groups CONFIG and CONTEXT of ucp.h)."""

import io
from typing import Any

from amoeba.embed import Memory, wait_until
from amoeba.openucx.libucp.callbacks import call_aside, elsewhere
from amoeba.openucx.libucp.completions import Completions
from amoeba.openucx.libucp.fields import read_params, write_attributes
from amoeba.openucx.libucp.handle_table import HandleTable
from amoeba.openucx.libucp.library import REQUEST_SIZE
from amoeba.openucx.libucp.process import Process
from amoeba.openucx.ucp.calls.contexts import ucp_cleanup, ucp_context_print_info, ucp_context_query, ucp_init_version
from amoeba.openucx.ucp.config import (
    ucp_config_modify,
    ucp_config_print,
    ucp_config_read,
    ucp_config_release,
    ucp_config_t,
)
from amoeba.openucx.ucp.constants import UCP_ENTITY_NAME_MAX
from amoeba.openucx.ucp.context import Context
from amoeba.openucx.ucp.library import ucp_lib_query
from amoeba.openucx.ucp.structures import ucp_context_attr_t, ucp_lib_attr_t, ucp_params_t
from amoeba.openucx.ucp.worker import Worker

__all__ = ["Contexts", "Printer"]


class Printer:
    """Writes text to C's files."""

    def __init__(self, lib: Any) -> None:
        self._lib = lib

    def to(self, stream: Any, text: io.StringIO) -> None:
        """Write text; to standard output for NULL."""
        data = text.getvalue().encode("utf-8", "surrogateescape")
        call_aside(self._lib.print_text, stream, data, len(data))  # a pipe may be full


class Contexts:
    """The calls that a program begins with."""

    def __init__(
        self,
        ffi: Any,
        memory: Memory,
        handles: HandleTable,
        completions: Completions,
        process: Process,
        printer: Printer,
    ) -> None:
        self._null = ffi.NULL
        self._memory, self._handles, self._completions = memory, handles, completions
        self._process, self._printer = process, printer

    def ucp_lib_query(self, attr: Any) -> None:
        self._memory.require(attr, "attr")
        write_attributes(self._memory, attr, ucp_lib_query(ucp_lib_attr_t(field_mask=attr.field_mask)))

    def ucp_config_read(self, env_prefix: Any, filename: Any, config_p: Any) -> None:
        self._memory.require(config_p, "config_p")
        config = ucp_config_read(self._memory.string(env_prefix), self._memory.string(filename))
        config_p[0] = self._handles.add(config)

    def ucp_config_release(self, config: int) -> None:
        ucp_config_release(self._handles.remove(config, ucp_config_t))

    def ucp_config_modify(self, config: int, name: Any, value: Any) -> None:
        found = self._handles.get(config, ucp_config_t)
        self._memory.require(name, "name")
        self._memory.require(value, "value")
        ucp_config_modify(found, self._memory.string(name) or "", self._memory.string(value) or "")

    def ucp_config_print(self, config: int, stream: Any, title: Any, print_flags: int) -> None:
        text = io.StringIO()
        flags = print_flags & 0xFFFF_FFFF
        ucp_config_print(self._handles.get(config, ucp_config_t), text, self._memory.string(title), flags)
        self._printer.to(stream, text)

    def ucp_init_version(
        self, api_major_version: int, api_minor_version: int, params: Any, config: int, context_p: Any
    ) -> None:
        self._memory.require(context_p, "context_p")
        functions = {"request_init": lambda function: function, "request_cleanup": lambda function: function}
        taken = read_params(self._memory, params, ucp_params_t, {**functions, "name": self._memory.string})
        settings = self._handles.get(config, ucp_config_t) if config else None
        taken.request_init, taken.request_cleanup = self._completions.hooks(
            taken.request_size or 0, taken.request_init or self._null, taken.request_cleanup or self._null
        )
        taken.request_size = 0
        fields = taken.fields_by_bit()
        taken.field_mask = (taken.field_mask or 0) | fields["request_init"] | fields["request_cleanup"]
        adapter = self._process.use()
        try:
            made = ucp_init_version(api_major_version, api_minor_version, taken, settings, adapter=adapter)
        except BaseException:
            self._process.drop()
            raise
        context_p[0] = self._handles.add(made)

    def ucp_cleanup(self, context: int) -> None:
        found = self._handles.get(context, Context)
        if found.closed:  # the context of the process that has forked this one
            self._handles.remove(context, Context)
            return
        wait_until(lambda: not any(map(elsewhere, self._handles.made_from(found, Worker))), self._process.nic.rest)
        ucp_cleanup(self._handles.get(context, Context))
        self._handles.remove(context, Context)
        self._process.drop()

    def ucp_context_query(self, context: int, attr: Any) -> None:
        self._memory.require(attr, "attr")
        wanted = ucp_context_attr_t(field_mask=attr.field_mask)
        filled = ucp_context_query(self._handles.get(context, Context), wanted)
        if filled.asks("request_size"):
            filled.request_size = REQUEST_SIZE
        write_attributes(self._memory, attr, filled, {"name": self.put_name})

    def put_name(self, given: Any, name: str) -> None:
        """Write the name of an object."""
        self._memory.put_string(given.name, UCP_ENTITY_NAME_MAX, name)

    def ucp_context_print_info(self, context: int, stream: Any) -> None:
        text = io.StringIO()
        ucp_context_print_info(self._handles.get(context, Context), text)
        self._printer.to(stream, text)
