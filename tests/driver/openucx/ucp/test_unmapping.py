"""Memory is free when it is unmapped, also in the middle of a peer's operation.

The device keeps a grant of the memory, so that an access that comes too late changes it.
"""

import amoeba.ucp as ucp
import numpy as np
import pytest

from tests.driver.openucx.ucp.entities import Entity, wait_for
from tests.support.draining import Busy
from tests.support.pages import Pages

LENGTH = 1 << 17
DATA, GUARD, POISON = 0x11, 0x22, 0xEE
EVERY_NIC = pytest.mark.parametrize("adapters", ["model,model", "rtl,rtl"], indirect=True)


@EVERY_NIC
@pytest.mark.parametrize("rounds", [5, 11, 14, 20])
def test_mapped_memory_is_free_once_it_is_unmapped(adapters, sender, receiver, rounds):
    pages, data = Pages(LENGTH, GUARD), np.full(LENGTH, DATA, np.uint8)
    ep = sender.connect(receiver)
    memory = ucp.ucp_mem_map(receiver.context, ucp.ucp_mem_map_params_t(address=pages.bytes, length=LENGTH))
    key = ucp.ucp_ep_rkey_unpack(ep, ucp.ucp_rkey_pack(receiver.context, memory)[0])
    device = adapters.nics[1].device
    device.grant(pages.address, LENGTH)
    put = ucp.ucp_put_nbx(ep, data, LENGTH, pages.address, key, None)
    for _ in range(rounds):
        sender.progress()
    ucp.ucp_mem_unmap(receiver.context, memory)
    pages.bytes[:] = POISON
    for _ in range(60):
        sender.progress()
    assert (pages.bytes == POISON).all()
    device.revoke(pages.address, LENGTH)
    wait_for(lambda: put.done, sender)
    ucp.ucp_rkey_destroy(key)


def test_mapped_memory_whose_requests_do_not_end_stays_mapped(models, monkeypatch):
    entity = Entity(models[0])
    memory = ucp.ucp_mem_map(entity.context, ucp.ucp_mem_map_params_t(address=bytearray(64), length=64))
    busy = Busy(models[0].nic, monkeypatch)
    with pytest.raises(ucp.UcsTimedOutError, match="close again"):
        ucp.ucp_mem_unmap(entity.context, memory)
    assert not memory.closed
    busy.busy = False
    ucp.ucp_mem_unmap(entity.context, memory)
    assert memory.closed
