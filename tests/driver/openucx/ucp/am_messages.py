"""Active messages: how a test sends them, and a handler that notes them."""

import amoeba.ucp as ucp
from amoeba_model.impairments import Impairments

from tests.driver.openucx.ucp.test_streams import param

OK, IN_PROGRESS = ucp.UcsStatus.UCS_OK, ucp.UcsStatus.UCS_INPROGRESS
EAGER, RNDV, REPLY = ucp.UCP_AM_SEND_FLAG_EAGER, ucp.UCP_AM_SEND_FLAG_RNDV, ucp.UCP_AM_SEND_FLAG_REPLY
HAS_DATA, IS_RNDV = ucp.UCP_AM_RECV_ATTR_FLAG_DATA, ucp.UCP_AM_RECV_ATTR_FLAG_RNDV
HAS_REPLY = ucp.UCP_AM_RECV_ATTR_FIELD_REPLY_EP
IMPAIRED = Impairments(seed=6, loss=0.02, duplication=0.02, corruption=0.02, reordering=0.02)
ID = 7


def send(ep, data, header=None, number=ID, **fields):
    length = 0 if header is None else len(header)
    return ucp.ucp_am_send_nbx(ep, number, header, length, data, len(data), param(**fields) if fields else None)


class Messages:
    """A handler that notes what comes, and answers with what ``verdict`` says of it."""

    def __init__(self, entity, verdict=lambda came: OK, number=ID, **fields):
        self.entity = entity
        self.verdict = verdict
        self.came = []
        handler = ucp.ucp_am_handler_param_t(id=number, cb=self.call, arg="arg", **fields)
        ucp.ucp_worker_set_am_recv_handler(entity.worker, handler)

    def call(self, arg, header, header_length, data, length, recv):
        assert arg == "arg"
        assert (header is None) == (header_length == 0)
        assert header is None or header.nbytes == header_length
        self.header = None if header is None else bytes(header)
        self.attr, self.reply_ep = recv.recv_attr, recv.reply_ep
        self.data = data
        self.length = length
        self.bytes = bytes(data) if isinstance(data, memoryview) else None
        verdict = self.verdict(self)
        self.came.append((self.header, self.bytes, length))
        return verdict

    def receive(self, count=None, **fields):
        """Receive what came last: (request, buffer)."""
        buffer = bytearray(self.length if count is None else count)
        request = ucp.ucp_am_recv_data_nbx(
            self.entity.worker, self.data, buffer, len(buffer), param(**fields) if fields else None
        )
        return request, buffer


def keep(came):
    return IN_PROGRESS
