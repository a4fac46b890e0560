"""libfabric's calls one to one: their names, with their arguments in C's order.

::

    from amoeba.fi import *

    (info, *_) = fi_getinfo(fi_version(), None, None, 0, hints)
    fabric = fi_fabric(info.fabric_attr)
    domain = fi_domain(fabric, info)
    ...
    fi_fetch_atomic(ep, operand, 1, None, result, None, peer, addr, key, Datatype.FI_UINT64, Op.FI_SUM, context)

What differs from C, everywhere:

- Output parameters are left out and returned instead, arrays without their length.
- Errors are raised, as :class:`amoeba.FabricError`; FI_EAGAIN, too, of what is read, as
  :class:`amoeba.TryAgainError`. What a call raises beyond that is said where the object's method of that name is.
- Structures are those of :mod:`amoeba`; flags and enumerations are its classes, or plain numbers.
- ``desc`` is the region itself. Objects have no context of their own.
- Timeouts are in milliseconds, as in C, with -1 for none.

The methods behind these functions are the pleasant layer: :class:`amoeba.Endpoint` and its neighbours.
"""

from amoeba.fi.atomic import (
    fi_atomic,
    fi_atomicmsg,
    fi_atomicv,
    fi_atomicvalid,
    fi_compare_atomic,
    fi_compare_atomicmsg,
    fi_compare_atomicv,
    fi_compare_atomicvalid,
    fi_fetch_atomic,
    fi_fetch_atomicmsg,
    fi_fetch_atomicv,
    fi_fetch_atomicvalid,
    fi_inject_atomic,
    fi_query_atomic,
)
from amoeba.fi.attributes import AvAttr, CntrAttr, CqAttr, EqAttr
from amoeba.fi.control import fi_close, fi_control
from amoeba.fi.domain import (
    fi_av_bind,
    fi_av_insert,
    fi_av_lookup,
    fi_av_open,
    fi_av_remove,
    fi_av_straddr,
    fi_domain,
    fi_domain_bind,
    fi_fabric,
    fi_mr_desc,
    fi_mr_key,
    fi_mr_reg,
    fi_rx_addr,
)
from amoeba.fi.endpoint import (
    fi_cancel,
    fi_enable,
    fi_endpoint,
    fi_ep_alias,
    fi_ep_bind,
    fi_getname,
    fi_getopt,
    fi_rx_context,
    fi_rx_size_left,
    fi_scalable_ep,
    fi_scalable_ep_bind,
    fi_setopt,
    fi_stx_context,
    fi_tx_context,
    fi_tx_size_left,
)
from amoeba.fi.info import fi_allocinfo, fi_dupinfo, fi_getinfo, fi_strerror, fi_tostr, fi_version
from amoeba.fi.queues import (
    fi_cntr_add,
    fi_cntr_adderr,
    fi_cntr_open,
    fi_cntr_read,
    fi_cntr_readerr,
    fi_cntr_set,
    fi_cntr_seterr,
    fi_cntr_wait,
    fi_cq_open,
    fi_cq_read,
    fi_cq_readerr,
    fi_cq_readfrom,
    fi_cq_signal,
    fi_cq_sread,
    fi_cq_sreadfrom,
    fi_cq_strerror,
    fi_eq_open,
    fi_eq_read,
    fi_eq_readerr,
    fi_eq_sread,
    fi_eq_strerror,
    fi_eq_write,
    fi_trywait,
)
from amoeba.fi.rma import (
    fi_inject_write,
    fi_inject_writedata,
    fi_read,
    fi_readmsg,
    fi_readv,
    fi_write,
    fi_writedata,
    fi_writemsg,
    fi_writev,
)

__all__ = [
    "AvAttr",
    "CntrAttr",
    "CqAttr",
    "EqAttr",
    "fi_allocinfo",
    "fi_atomic",
    "fi_atomicmsg",
    "fi_atomicv",
    "fi_atomicvalid",
    "fi_av_bind",
    "fi_av_insert",
    "fi_av_lookup",
    "fi_av_open",
    "fi_av_remove",
    "fi_av_straddr",
    "fi_cancel",
    "fi_close",
    "fi_cntr_add",
    "fi_cntr_adderr",
    "fi_cntr_open",
    "fi_cntr_read",
    "fi_cntr_readerr",
    "fi_cntr_set",
    "fi_cntr_seterr",
    "fi_cntr_wait",
    "fi_compare_atomic",
    "fi_compare_atomicmsg",
    "fi_compare_atomicv",
    "fi_compare_atomicvalid",
    "fi_control",
    "fi_cq_open",
    "fi_cq_read",
    "fi_cq_readerr",
    "fi_cq_readfrom",
    "fi_cq_signal",
    "fi_cq_sread",
    "fi_cq_sreadfrom",
    "fi_cq_strerror",
    "fi_domain",
    "fi_domain_bind",
    "fi_dupinfo",
    "fi_enable",
    "fi_endpoint",
    "fi_ep_alias",
    "fi_ep_bind",
    "fi_eq_open",
    "fi_eq_read",
    "fi_eq_readerr",
    "fi_eq_sread",
    "fi_eq_strerror",
    "fi_eq_write",
    "fi_fabric",
    "fi_fetch_atomic",
    "fi_fetch_atomicmsg",
    "fi_fetch_atomicv",
    "fi_fetch_atomicvalid",
    "fi_getinfo",
    "fi_getname",
    "fi_getopt",
    "fi_inject_atomic",
    "fi_inject_write",
    "fi_inject_writedata",
    "fi_mr_desc",
    "fi_mr_key",
    "fi_mr_reg",
    "fi_query_atomic",
    "fi_read",
    "fi_readmsg",
    "fi_readv",
    "fi_rx_addr",
    "fi_rx_context",
    "fi_rx_size_left",
    "fi_scalable_ep",
    "fi_scalable_ep_bind",
    "fi_setopt",
    "fi_strerror",
    "fi_stx_context",
    "fi_tostr",
    "fi_trywait",
    "fi_tx_context",
    "fi_tx_size_left",
    "fi_version",
    "fi_write",
    "fi_writedata",
    "fi_writemsg",
    "fi_writev",
]
