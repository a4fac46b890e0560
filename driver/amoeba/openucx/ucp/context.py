"""UCX's context: memory that peers may reach, and calls that may be used (group CONTEXT of ucp.h)."""

from typing import Final

from amoeba.core.errors import FabricError
from amoeba.openucx.ucp.adapter import Adapter, close_default
from amoeba.openucx.ucp.config import ucp_config_t
from amoeba.openucx.ucp.constants import ucp_feature, ucs_thread_mode_t
from amoeba.openucx.ucp.handles import ucp_context_h
from amoeba.openucx.ucp.objects import UcpObject
from amoeba.openucx.ucp.status import invalid_param, ucs_error_of
from amoeba.openucx.ucp.structures import ucp_params_t
from amoeba.transport.protection_domain import ProtectionDomain

__all__ = ["REQUEST_SIZE", "Context"]

REQUEST_SIZE = 0
"""Bytes of the library's own part of a request: 0, because a request is an object."""
_JOB, _PROCESS = 1, 1
"""Job and process as endpoints of libfabric's API have them by default."""
_MAX_NAME = 31
"""Maximum characters of a name."""


class Context(UcpObject, ucp_context_h):
    """A protection domain of one NIC: peers reach its mapped memory through its workers only.

    ``features``: the features that may be used; a call without its feature raises INVALID_PARAM. ``params``: the
    checked parameters of ucp_init. Raises NO_RESOURCE if the NIC has no protection domain left.
    """

    def __init__(self, adapter: Adapter, features: ucp_feature, params: ucp_params_t, config: ucp_config_t) -> None:
        self.adapter = adapter
        self.nic = adapter.nic
        self.features = features
        self.params = params
        self.config: Final = config
        """The context's own copy."""
        self.name = (params.name or f"{id(self):#x}")[:_MAX_NAME]
        super().__init__(adapter)
        try:
            self.protection = ProtectionDomain(self.nic, job_id=_JOB, pid_on_fep=_PROCESS)
        except FabricError as error:
            self._closed = True
            raise ucs_error_of(error) from error
        self._stay()

    @property
    def thread_mode(self) -> ucs_thread_mode_t:
        """Threads that may call the context: any thread where workers of several share it, else one at a time."""
        shared = self.params.mt_workers_shared
        return ucs_thread_mode_t.UCS_THREAD_MODE_MULTI if shared else ucs_thread_mode_t.UCS_THREAD_MODE_SERIALIZED

    def need(self, feature: ucp_feature, what: str) -> None:
        """Raise INVALID_PARAM unless one of these features was asked for."""
        if not self.features & feature:
            raise invalid_param(f"{what} needs {feature!r}, the context was made with {self.features!r}")

    def describe(self) -> str:
        """Describe the context and its NIC, in lines."""
        nic = self.nic
        return (
            f"# UCP context {self.name}\n#\n"
            f"#   device     : {nic.device.name}\n"
            f"#   features   : {self.features!r}\n"
            f"#   contexts   : {nic.parameters.contexts}\n"
            f"#   peers      : {nic.parameters.peers}\n"
            f"#   keys       : {nic.parameters.keys}\n"
        )

    def _release(self) -> None:
        self.protection.release()
        close_default(self.adapter)

    def __repr__(self) -> str:
        return f"<Context on {self.nic.device.name}, {self.features!r}>"
