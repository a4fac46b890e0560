"""The objects of a C program, opened by the calls of C."""

import numpy as np
from amoeba import AvType, BindFlags, CqFormat, WaitObj, fi


def words(*values):
    return np.array(values, np.uint64)


class Node:
    """One end, opened as a C program would."""

    def __init__(self, fabric, info, keep):
        self.info = info
        self.domain = keep(fi.fi_domain(fabric, info))
        self.cq = keep(fi.fi_cq_open(self.domain, fi.CqAttr(CqFormat.FI_CQ_FORMAT_DATA, WaitObj.FI_WAIT_FD)))
        self.av = keep(fi.fi_av_open(self.domain, fi.AvAttr(AvType.FI_AV_TABLE)))
        self.ep = keep(fi.fi_endpoint(self.domain, info))
        fi.fi_ep_bind(self.ep, self.cq, BindFlags.FI_TRANSMIT | BindFlags.FI_RECV)
        fi.fi_ep_bind(self.ep, self.av, 0)
        fi.fi_enable(self.ep)

    def done(self, context=None):
        """The entry of the operation in flight, which has this context."""
        (entry,) = fi.fi_cq_sread(self.cq, 1, None, 30_000)
        assert entry.op_context == context
        return entry
