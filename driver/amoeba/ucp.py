"""UCX's UCP API in Python (UCX 1.12.1): C's names and orders of arguments, on any Amoeba NIC.

Calls return values that C returns through pointers, and raise a :class:`UcsError` when they fail. Structures are
dataclasses whose absent fields are None: docs/ucp.md has the rules.

``__all__`` of a file of this folder lists the names that it adds; its other names are internal.
"""

from amoeba.openucx.ucp import adapter, config, constants, datatypes, handles, library, status, structures
from amoeba.openucx.ucp.adapter import *  # noqa: F403  the names that C has, declared in the __all__ of each file
from amoeba.openucx.ucp.calls import (
    active_messages,
    atomics,
    contexts,
    endpoints,
    flushes,
    listeners,
    memory,
    requests,
    rma,
    streams,
    tags,
    wakeup,
    workers,
)
from amoeba.openucx.ucp.calls.active_messages import *  # noqa: F403
from amoeba.openucx.ucp.calls.atomics import *  # noqa: F403
from amoeba.openucx.ucp.calls.contexts import *  # noqa: F403
from amoeba.openucx.ucp.calls.endpoints import *  # noqa: F403
from amoeba.openucx.ucp.calls.flushes import *  # noqa: F403
from amoeba.openucx.ucp.calls.listeners import *  # noqa: F403
from amoeba.openucx.ucp.calls.memory import *  # noqa: F403
from amoeba.openucx.ucp.calls.requests import *  # noqa: F403
from amoeba.openucx.ucp.calls.rma import *  # noqa: F403
from amoeba.openucx.ucp.calls.streams import *  # noqa: F403
from amoeba.openucx.ucp.calls.tags import *  # noqa: F403
from amoeba.openucx.ucp.calls.wakeup import *  # noqa: F403
from amoeba.openucx.ucp.calls.workers import *  # noqa: F403
from amoeba.openucx.ucp.config import *  # noqa: F403
from amoeba.openucx.ucp.constants import *  # noqa: F403
from amoeba.openucx.ucp.datatypes import *  # noqa: F403
from amoeba.openucx.ucp.handles import *  # noqa: F403
from amoeba.openucx.ucp.library import *  # noqa: F403
from amoeba.openucx.ucp.status import *  # noqa: F403
from amoeba.openucx.ucp.structures import *  # noqa: F403

__all__: list[str] = []
__all__ += active_messages.__all__
__all__ += adapter.__all__
__all__ += atomics.__all__
__all__ += config.__all__
__all__ += constants.__all__
__all__ += contexts.__all__
__all__ += datatypes.__all__
__all__ += endpoints.__all__
__all__ += flushes.__all__
__all__ += handles.__all__
__all__ += library.__all__
__all__ += listeners.__all__
__all__ += memory.__all__
__all__ += requests.__all__
__all__ += rma.__all__
__all__ += status.__all__
__all__ += streams.__all__
__all__ += structures.__all__
__all__ += tags.__all__
__all__ += wakeup.__all__
__all__ += workers.__all__
