"""The calls of fi_domain(3), fi_mr(3) and fi_av(3)."""

import pytest
from amoeba import (
    FI_ADDR_NOTAVAIL,
    AvFlags,
    AvType,
    BindFlags,
    Control,
    DomainFlags,
    EqEntry,
    EqEvent,
    EqFlags,
    Errno,
    ErrorAvailableError,
    MrAttr,
    MrFlags,
    WaitObj,
    fi,
)

from tests.driver.endpoints import ALL_ACCESS, refused
from tests.driver.libfabric.calls.c_node import words

SOMEBODY = bytes.fromhex("020000000009 0a000009 00000001 0001 0000")
"""An endpoint's address."""


def test_regions_report_to_the_event_queue_of_their_domain(fabric, client, keep):
    eq = keep(fi.fi_eq_open(fabric, fi.EqAttr(wait_obj=WaitObj.FI_WAIT_UNSPEC)))
    fi.fi_domain_bind(client.domain, eq, DomainFlags.FI_REG_MR)
    buffer = bytearray(16)
    mr = keep(fi.fi_mr_reg(client.domain, buffer, 8, ALL_ACCESS, 0, 5, 0, "mine"))
    assert fi.fi_eq_sread(eq, 1000, 0) == EqEntry(EqEvent.FI_MR_COMPLETE, mr, "mine", 0)
    assert (mr.length, fi.fi_mr_key(mr), fi.fi_mr_desc(mr)) == (8, 5, mr)
    with refused(Errno.FI_EINVAL):
        fi.fi_mr_reg(client.domain, buffer, 8, ALL_ACCESS, 1, 6, 0)
    with refused(Errno.FI_EBADFLAGS):
        fi.fi_mr_reg(client.domain, buffer, 8, ALL_ACCESS, 0, 6, 1)
    with refused(Errno.FI_EINVAL, "the buffer has 16"):
        fi.fi_mr_reg(client.domain, buffer, 17, ALL_ACCESS, 0, 6, 0)


@pytest.mark.parametrize("call", ["regv", "regattr"])
def test_regions_of_one_segment_can_be_registered_as_vectors(fabric, client, keep, call):
    eq = keep(fi.fi_eq_open(fabric, fi.EqAttr(wait_obj=WaitObj.FI_WAIT_UNSPEC)))
    fi.fi_domain_bind(client.domain, eq, DomainFlags.FI_REG_MR)
    one, other = bytearray(16), bytearray(8)

    def register(iov, offset=0, flags=0, **rest):
        if call == "regattr":
            attr = MrAttr(iov, ALL_ACCESS, offset, requested_key=5, context="mine", **rest)
            return keep(fi.fi_mr_regattr(client.domain, attr, flags))
        return keep(fi.fi_mr_regv(client.domain, iov, len(iov), ALL_ACCESS, offset, 5, flags, "mine"))

    mr = register([one], flags=MrFlags.FI_RMA_PMEM)
    assert (mr.length, mr.key, mr.access, mr.persistent) == (16, 5, ALL_ACCESS, True)
    assert fi.fi_eq_sread(eq, 1000, 0) == EqEntry(EqEvent.FI_MR_COMPLETE, mr, "mine", 0)
    for iov, offset in (([], 0), ([one, other], 0), ([other], 8)):
        with refused(Errno.FI_EINVAL):
            register(iov, offset)
    with refused(Errno.FI_EBADFLAGS):
        register([other], flags=1)


def test_a_region_has_no_authorization_key(client):
    with refused(Errno.FI_EINVAL, "authorization key"):
        client.domain.mr_regattr(MrAttr([bytearray(8)], ALL_ACCESS, auth_key=b"secret"))


def test_of_a_longer_vector_what_is_counted_is_registered(client, keep):
    one, other = bytearray(16), bytearray(8)
    assert keep(fi.fi_mr_regv(client.domain, [one, other], 1, ALL_ACCESS, 0, 7, 0)).length == 16
    with refused(Errno.FI_EINVAL, "iov has 1"):
        fi.fi_mr_regv(client.domain, [one], 2, ALL_ACCESS, 0, 8, 0)
    assert keep(client.domain.mr_regv([other], ALL_ACCESS)).length == 8


def test_vectors_of_addresses(fabric, client, nodes, keep):
    name = fi.fi_getname(nodes[1].ep)
    av = keep(fi.fi_av_open(client.domain, fi.AvAttr(AvType.FI_AV_MAP, 2)))
    assert (av.type, av.rx_ctx_bits) == (AvType.FI_AV_MAP, 2)
    inserted = fi.fi_av_insert(av, name * 3, 2, AvFlags.FI_SYNC_ERR)
    assert (inserted.count, inserted.fi_addr, inserted.errors) == (2, (0, 1), (Errno.FI_SUCCESS,) * 2)
    assert fi.fi_av_lookup(av, 1) == name
    assert fi.fi_av_straddr(av, name).startswith("10.0.0.2 ")
    fi.fi_av_remove(av, [0, 1], 1, 0)
    with refused(Errno.FI_EINVAL):
        fi.fi_av_lookup(av, 0)
    with refused(Errno.FI_EINVAL, "expected 4 addresses of 18 bytes, got 54"):
        fi.fi_av_insert(av, name * 3, 4, 0)
    with refused(Errno.FI_EBADFLAGS):
        fi.fi_av_remove(av, [1], 1, 1)
    assert fi.fi_rx_addr(1, 1, 2) == 1 << 62 | 1


def test_vectors_by_name(client, nodes, keep):
    av = keep(fi.fi_av_open(client.domain, fi.AvAttr(AvType.FI_AV_TABLE, count=8, ep_per_node=2)))
    inserted = fi.fi_av_insertsvc(av, "10.0.0.2", "0", AvFlags.FI_SYNC_ERR)
    assert (inserted.count, inserted.errors) == (1, (Errno.FI_SUCCESS,))
    assert fi.fi_av_lookup(av, 0) == fi.fi_getname(nodes[1].ep)
    assert fi.fi_av_insertsym(av, "10.0.0.1", 2, "1", 3, 0).fi_addr == (1, 2, 3, 4, 5, 6)
    with refused(Errno.FI_ENOSYS):
        fi.fi_av_open(client.domain, fi.AvAttr(name="shared"))


def test_vectors_with_events(fabric, client, nodes, keep):
    eq = keep(fi.fi_eq_open(fabric, fi.EqAttr()))
    av = keep(fi.fi_av_open(client.domain, fi.AvAttr(flags=AvFlags.FI_EVENT)))
    with refused(Errno.FI_EBADFLAGS):
        fi.fi_av_bind(av, eq, 1)
    fi.fi_av_bind(av, eq, 0)
    assert fi.fi_av_insert(av, SOMEBODY + bytes([255] * 18), 2, 0, "many").fi_addr[1] == FI_ADDR_NOTAVAIL
    with pytest.raises(ErrorAvailableError):
        fi.fi_eq_read(eq, 0)
    assert fi.fi_eq_readerr(eq, EqFlags.FI_PEEK).data == 1
    assert fi.fi_eq_readerr(eq, 0).err == Errno.FI_EINVAL
    assert fi.fi_eq_read(eq, 0)[2:] == ("many", 1)


def test_a_region_counts(nodes, mr, to, keep):
    client, server = nodes
    cntr = keep(fi.fi_cntr_open(server.domain, fi.CntrAttr()))
    fi.fi_mr_bind(mr, cntr, BindFlags.FI_REMOTE_WRITE)
    fi.fi_write(client.ep, words(1), 8, None, 0, *to, "write")
    client.done("write")
    assert fi.fi_cntr_read(cntr) == 1


def test_keys_are_told_as_bytes(client, memory, mr, to):
    base, raw = fi.fi_mr_raw_attr(mr, 0)
    assert (base, len(raw)) == (to[0], 8)
    key = fi.fi_mr_map_raw(client.domain, base, raw + b"more", 8, 0)
    fi.fi_write(client.ep, words(6), 8, None, 0, base, key)
    client.done()
    assert memory[0] == 6
    fi.fi_mr_unmap_key(client.domain, key)
    assert fi.fi_control(mr, Control.FI_GET_RAW_MR) == (base, raw)
    assert fi.fi_control(client.domain, Control.FI_MAP_RAW_MR, (base, raw)) == key
    fi.fi_control(client.domain, Control.FI_UNMAP_KEY, key)
    with refused(Errno.FI_EINVAL, "a key has 8 bytes, got 7"):
        fi.fi_mr_map_raw(client.domain, base, raw, 7, 0)
    for call in (lambda: fi.fi_mr_raw_attr(mr, 1), lambda: fi.fi_mr_map_raw(client.domain, base, raw, 8, 1)):
        with refused(Errno.FI_EBADFLAGS):
            call()


def test_regions_are_enabled_and_refreshed_whenever_that_is_asked_for(client, memory, mr, to):
    fi.fi_mr_enable(mr)
    fi.fi_control(mr, Control.FI_ENABLE)
    fi.fi_mr_refresh(mr, [memory[:2], memory[4:], bytearray(8)], 2, 0)
    fi.fi_control(mr, Control.FI_REFRESH)
    fi.fi_write(client.ep, words(6), 8, None, 0, *to)
    client.done()
    assert memory[0] == 6
    with refused(Errno.FI_EINVAL, "outside"):
        fi.fi_mr_refresh(mr, [bytearray(8)], 1, 0)
    with refused(Errno.FI_EBADFLAGS):
        fi.fi_mr_refresh(mr, None, 0, 1)
    mr.close()
    for call in (mr.enable, mr.refresh, mr.raw_attr):
        with refused(Errno.FI_EBADF):
            call()


def test_a_region_is_bound_to_counters_alone(client, nodes, mr):
    with refused(Errno.FI_EINVAL, "bound to counters"):
        fi.fi_mr_bind(mr, nodes[1].ep, 0)
