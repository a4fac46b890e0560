"""Posted operations: fi_msg(3), fi_tagged(3), fi_rma(3), fi_atomic(3), and other calls on endpoints.

The library ignores ``desc``: local memory needs no registration, so a program may pass any value.
"""

from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.embed import Memory
from amoeba.libfabric.objects.constants import Datatype, Op, OpFlags, QueryFlags
from amoeba.libfabric.objects.operations.vectors import AtomicMsg, Msg, RmaIoc, RmaIov, RmaMsg, TaggedMsg
from amoeba.libfabric.provider.fids import FidClass, Fids
from amoeba.libfabric.provider.library import COMPARE, DATA, FETCH, GIVEN, INJECT, TAGGED, WRITE
from amoeba.libfabric.provider.triggers import Triggers

__all__ = ["Transfers", "Vectors"]

_MAX_SEGMENTS = 1 << 14
"""Maximum number of segments of one vector: more than any ring holds."""
_MAX_BYTES = 1 << 40
_EMPTY = bytearray()
_TRIGGER = int(OpFlags.FI_TRIGGER)
_DATATYPES = {int(datatype): datatype for datatype in Datatype}
_OPS = {int(op): op for op in Op}


class Vectors:
    """C's memory, in pieces."""

    def __init__(self, memory: Memory, triggers: Triggers) -> None:
        self._memory, self._triggers = memory, triggers

    def buffers(self, iov: Any, count: int) -> list[Any]:
        """Return the buffers of a ``struct iovec`` array. Raises FI_EINVAL for NULL, and for too many segments."""
        if not count:
            return []
        view = self._memory.view
        return [view(each.iov_base, each.iov_len) for each in self._entries(iov, count)]

    def elements(self, ioc: Any, count: int, size: int) -> list[Any]:
        """Return the buffers of an array of ``struct fi_ioc``, elements of ``size`` bytes."""
        if not count:
            return []
        view = self._memory.view
        return [view(each.addr, each.count * size) for each in self._entries(ioc, count)]

    def _entries(self, array: Any, count: int) -> Any:
        if count > _MAX_SEGMENTS:
            raise fabric_error(Errno.FI_EINVAL, f"expected at most {_MAX_SEGMENTS} segments, got {count}")
        self._memory.require(array, "iov")
        return [array[index] for index in range(count)]

    def context(self, pointer: Any, flags: int) -> Any:
        """Return the context of an operation with these flags."""
        address = self._memory.address(pointer)
        return self._triggers.of(address) if flags & _TRIGGER else address

    def message(self, msg: Any, tagged: int, flags: int = 0) -> Any:
        """Convert ``struct fi_msg_tagged``; a message without a tag uses fewer fields."""
        buffers = self.buffers(msg.msg_iov, msg.iov_count)
        context = self.context(msg.context, flags)
        if tagged:
            return TaggedMsg(buffers, msg.addr, msg.tag, msg.ignore, None, context, msg.data)
        return Msg(buffers, msg.addr, None, context, msg.data)

    def rma(self, msg: Any, flags: int = 0) -> RmaMsg:
        """Convert ``struct fi_msg_rma``."""
        remote = [RmaIov(each.addr, each.len, each.key) for each in self._entries(msg.rma_iov, msg.rma_iov_count)]
        buffers = self.buffers(msg.msg_iov, msg.iov_count)
        return RmaMsg(buffers, msg.addr, remote, None, self.context(msg.context, flags), msg.data)

    def atomic(self, msg: Any, flags: int = 0) -> AtomicMsg:
        """Convert ``struct fi_msg_atomic``."""
        datatype, op = operation(msg.datatype, msg.op)
        remote = [RmaIoc(each.addr, each.count, each.key) for each in self._entries(msg.rma_iov, msg.rma_iov_count)]
        operands = [] if op is Op.FI_ATOMIC_READ else self.elements(msg.msg_iov, msg.iov_count, datatype.size)
        context = self.context(msg.context, flags)
        return AtomicMsg(operands, msg.addr, remote, op, datatype, None, context, msg.data)


def operation(datatype: int, op: int) -> tuple[Datatype, Op]:
    """Convert datatype and operation. Raises FI_EOPNOTSUPP for numbers that the NIC has nothing for."""
    try:
        return _DATATYPES[datatype], _OPS[op]
    except KeyError:
        raise fabric_error(Errno.FI_EOPNOTSUPP, f"there is no operation {op} on datatype {datatype}") from None


class Transfers:
    """The calls on endpoints and their contexts that transfer data, and some others."""

    def __init__(self, ffi: Any, memory: Memory, fids: Fids, vectors: Vectors, triggers: Triggers) -> None:
        self._ffi, self._null = ffi, ffi.NULL
        self._memory, self._fids, self._vectors, self._triggers = memory, fids, vectors, triggers
        self._cast, self._buffer, self._bytes = ffi.cast, ffi.buffer, ffi.typeof("char *")
        self._posting, self._receiving, self._triggering = fids.posting, fids.receiving, fids.triggering

    def _view(self, address: int, length: int) -> Any:
        """Return C's memory in place."""
        if not length:
            return _EMPTY
        if not address or length > _MAX_BYTES:
            raise fabric_error(Errno.FI_EINVAL, f"expected memory, got {length} bytes at {address:#x}")
        return self._buffer(self._cast(self._bytes, address), length)

    def _flags(self, ep: int, kind: int, flags: int) -> int:
        """Return the flags of a call with a ``struct``, or the endpoint's trigger flag for a call without flags."""
        return flags if kind & GIVEN or ep not in self._triggering else _TRIGGER

    def _poster(self, ep: int) -> Any:
        """Return the object through which operations are posted. Raises FI_EBADF, or FI_EOPNOTSUPP for a receiver."""
        fid = self._fids.get(ep)
        if fid.address not in self._posting:
            raise fabric_error(Errno.FI_EOPNOTSUPP, f"nothing is sent through a {fid.fclass.name}")
        return self._posting[ep]

    def _receiver(self, ep: int) -> Any:
        fid = self._fids.get(ep)
        if fid.address not in self._receiving:
            raise fabric_error(Errno.FI_EOPNOTSUPP, f"nothing is received by a {fid.fclass.name}")
        return self._receiving[ep]

    # fi_msg, fi_tagged

    def ep_send(
        self, ep: int, kind: int, buf: int, length: int, data: int, peer: int, tag: int, context: Any
    ) -> None:
        endpoint = self._posting.get(ep) or self._poster(ep)
        view = self._view(buf, length)
        if ep in self._triggering:
            context = self._triggers.of(context)
        if kind == TAGGED:
            endpoint.tsend(view, peer, tag, context=context)
        elif kind == 0:
            endpoint.send(view, peer, context=context)
        elif kind == TAGGED | INJECT:
            endpoint.tinject(view, peer, tag)
        elif kind == INJECT:
            endpoint.inject(view, peer)
        elif kind == TAGGED | DATA:
            endpoint.tsenddata(view, data, peer, tag, context=context)
        elif kind == DATA:
            endpoint.senddata(view, data, peer, context=context)
        elif kind == TAGGED | DATA | INJECT:
            endpoint.tinjectdata(view, data, peer, tag)
        else:
            endpoint.injectdata(view, data, peer)

    def ep_sendmsg(self, ep: int, kind: int, msg: Any, flags: int) -> None:
        endpoint = self._poster(ep)
        msg = self._vectors.message(self._memory.require(msg, "msg"), kind & TAGGED, self._flags(ep, kind, flags))
        if kind == TAGGED | GIVEN:
            endpoint.tsendmsg(msg, OpFlags(flags))
        elif kind == GIVEN:
            endpoint.sendmsg(msg, OpFlags(flags))
        elif kind == TAGGED:
            endpoint.tsendv(msg.msg_iov, msg.addr, msg.tag, context=msg.context)
        else:
            endpoint.sendv(msg.msg_iov, msg.addr, context=msg.context)

    def ep_recv(
        self, ep: int, kind: int, buf: int, length: int, peer: int, tag: int, ignore: int, context: int
    ) -> None:
        endpoint = self._receiving.get(ep) or self._receiver(ep)
        view = self._view(buf, length) if buf else _EMPTY  # programs that expect no data pass any length
        if kind:
            endpoint.trecv(view, tag, ignore, src_addr=peer, context=context)
        else:
            endpoint.recv(view, src_addr=peer, context=context)

    def ep_recvmsg(self, ep: int, kind: int, msg: Any, flags: int) -> None:
        endpoint = self._receiver(ep)
        msg = self._vectors.message(self._memory.require(msg, "msg"), kind & TAGGED, flags)
        if kind == TAGGED | GIVEN:
            endpoint.trecvmsg(msg, OpFlags(flags))
        elif kind == GIVEN:
            endpoint.recvmsg(msg, OpFlags(flags))
        elif kind == TAGGED:
            endpoint.trecvv(msg.msg_iov, msg.tag, msg.ignore, src_addr=msg.addr, context=msg.context)
        else:
            endpoint.recvv(msg.msg_iov, src_addr=msg.addr, context=msg.context)

    # fi_rma

    def ep_rma(
        self, ep: int, kind: int, buf: int, length: int, data: int, peer: int, addr: int, key: int, context: Any
    ) -> None:
        endpoint = self._posting.get(ep) or self._poster(ep)
        view = self._view(buf, length)
        if ep in self._triggering:
            context = self._triggers.of(context)
        if kind == WRITE:
            endpoint.write(view, peer, addr, key, context=context)
        elif kind == 0:
            endpoint.read(view, peer, addr, key, context=context)
        elif kind == WRITE | INJECT:
            endpoint.inject_write(view, peer, addr, key)
        elif kind == WRITE | DATA:
            endpoint.writedata(view, data, peer, addr, key, context=context)
        else:
            endpoint.inject_writedata(view, data, peer, addr, key)

    def ep_rmamsg(self, ep: int, kind: int, msg: Any, flags: int) -> None:
        endpoint = self._poster(ep)
        msg = self._vectors.rma(self._memory.require(msg, "msg"), self._flags(ep, kind, flags))
        if kind & GIVEN:
            (endpoint.writemsg if kind & WRITE else endpoint.readmsg)(msg, OpFlags(flags))
            return
        (whole,) = msg.rma_iov
        post = endpoint.writev if kind & WRITE else endpoint.readv
        post(msg.msg_iov, msg.addr, whole.addr, whole.key, context=msg.context)

    # fi_atomic

    def ep_atomic(
        self,
        ep: int,
        kind: int,
        buf: int,
        count: int,
        compare: int,
        result: int,
        peer: int,
        addr: int,
        key: int,
        datatype: int,
        op: int,
        context: Any,
    ) -> None:
        endpoint = self._posting.get(ep) or self._poster(ep)
        kind_of, what = operation(datatype, op)
        size = count * kind_of.size
        view = None if what is Op.FI_ATOMIC_READ else self._view(buf, size)
        if ep in self._triggering:
            context = self._triggers.of(context)
        if kind == FETCH:
            endpoint.fetch_atomic(view, self._view(result, size), peer, addr, key, what, kind_of, context=context)
        elif kind == 0:
            endpoint.atomic(view, peer, addr, key, what, kind_of, context=context)
        elif kind == INJECT:
            endpoint.inject_atomic(view, peer, addr, key, what, kind_of)
        else:
            endpoint.compare_atomic(
                view, self._view(compare, size), self._view(result, size), peer, addr, key, what, kind_of,
                context=context,
            )  # fmt: skip

    def ep_atomicmsg(
        self,
        ep: int,
        kind: int,
        msg: Any,
        compare: Any,
        compare_count: int,
        result: Any,
        result_count: int,
        flags: int,
    ) -> None:
        endpoint = self._poster(ep)
        given, form = kind & GIVEN, kind & ~GIVEN
        wanted = self._vectors.atomic(self._memory.require(msg, "msg"), self._flags(ep, kind, flags))
        assert wanted.datatype is not None  # C always gives one
        compared = self._vectors.elements(compare, compare_count, wanted.datatype.size)
        results = self._vectors.elements(result, result_count, wanted.datatype.size)
        if given:
            bits = OpFlags(flags)
            if form == FETCH:
                endpoint.fetch_atomicmsg(wanted, results, flags=bits)
            elif form == COMPARE:
                endpoint.compare_atomicmsg(wanted, compared, results, flags=bits)
            else:
                endpoint.atomicmsg(wanted, bits)
            return
        (whole,) = wanted.rma_iov
        where = wanted.addr, whole.addr, whole.key, wanted.op, wanted.datatype
        if form == FETCH:
            endpoint.fetch_atomicv(wanted.msg_iov, results, *where, context=wanted.context)
        elif form == COMPARE:
            endpoint.compare_atomicv(wanted.msg_iov, compared, results, *where, context=wanted.context)
        else:
            endpoint.atomicv(wanted.msg_iov, *where, context=wanted.context)

    def atomic_valid(self, ep: int, form: int, datatype: int, op: int, count: Any) -> None:
        endpoint = self._poster(ep)
        wanted = operation(datatype, op)
        ask = (endpoint.atomicvalid, endpoint.fetch_atomicvalid, endpoint.compare_atomicvalid)[form]
        most = ask(*wanted)
        if count != self._null:
            count[0] = most

    def atomic_query(self, domain: int, datatype: int, op: int, attr: Any, flags: int) -> None:
        owner = self._fids.subject(domain, FidClass.DOMAIN)
        found = owner.query_atomic(*operation(datatype, op), QueryFlags(flags))
        self._memory.require(attr, "attr")
        attr.count, attr.size = found.count, found.size

    # fi_endpoint

    def ep_cancel(self, ep: int, context: int) -> None:
        fid = self._fids.get(ep)
        if not hasattr(fid.subject, "cancel"):
            raise fabric_error(Errno.FI_EOPNOTSUPP, f"a {fid.fclass.name} has nothing to cancel")
        fid.subject.cancel(self._triggers.known(context))

    def opt_get(self, ep: int, level: int, optname: int, optval: int, optlen: Any) -> None:
        getopt = self._with_options(ep).getopt
        self._memory.require(optlen, "optlen")
        value = getopt(level, optname)
        space, optlen[0] = optlen[0], 8
        if space < 8:
            raise fabric_error(Errno.FI_ETOOSMALL, f"an option has 8 bytes, there is space for {space}")
        self._memory.view(optval, 8)[:] = value.to_bytes(8, "little")

    def opt_set(self, ep: int, level: int, optname: int, optval: int, optlen: int) -> None:
        subject = self._with_options(ep)
        if optlen != 8:
            raise fabric_error(Errno.FI_EINVAL, f"an option has 8 bytes, got {optlen}")
        subject.setopt(level, optname, int.from_bytes(self._memory.view(optval, 8), "little"))

    def _with_options(self, ep: int) -> Any:
        fid = self._fids.get(ep)
        if not hasattr(fid.subject, "getopt"):
            raise fabric_error(Errno.FI_ENOPROTOOPT, f"a {fid.fclass.name} has no options")
        return fid.subject

    def size_left(self, ep: int, transmit: int) -> int:
        found = self._poster(ep).tx_size_left if transmit else self._receiver(ep).rx_size_left
        return int(found)
