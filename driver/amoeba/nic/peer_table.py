"""The peer table of a NIC: each entry in use is one packet delivery context of it."""

import secrets
from collections.abc import Iterable
from functools import cached_property
from hashlib import blake2b

from amoeba_model.nic.first_psns import KEY_WORDS
from amoeba_model.registers import PeerFlags

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.log import logger
from amoeba.nic.address import EndpointAddress
from amoeba.nic.free_numbers import FreeNumbers
from amoeba.nic.quotas import Quota
from amoeba.nic.registers import Registers

__all__ = ["PeerTable"]

_log = logger("nic.peers")
_KEY_SIZE = 16
_PSN_MASK = 0xFFFF_FFFF
_PSN_RANGE = (1 << 31) - (1 << 17)


class PeerTable:
    """The entries of one NIC's table."""

    def __init__(self, registers: Registers) -> None:
        self._registers = registers
        parameters = registers.parameters
        self._numbers = FreeNumbers(range(parameters.peers), "peer table entries")
        self._quota = Quota("peer table entries", "context", parameters.peers, parameters.contexts)
        self._opened = 0
        self._foreign: set[int] = set()
        self._first_psns: dict[int, int] = {}
        """The last first PSN of every entry that has been opened."""

    @cached_property
    def _key(self) -> bytes:
        """The key of the first PSNs, drawn at first use: earlier, the NIC may not be on its network yet.

        The NIC gets a key of its own, made of this one.
        """
        epoch = self._registers.device.new_epoch()
        key = secrets.token_bytes(_KEY_SIZE) if epoch is None else epoch.to_bytes(_KEY_SIZE, "little")
        # The NIC itself opens a PDC again behind a CLOSE, by a key that tells nothing about this one.
        own = blake2b(key=key, person=b"psn_key", digest_size=4 * KEY_WORDS).digest()
        for word in range(KEY_WORDS):
            value = int.from_bytes(own[4 * word : 4 * word + 4], "big")
            self._registers.write("device", "psn_key", value, word)
        return key

    def require_initiator(self) -> None:
        """Raise FI_EOPNOTSUPP if the NIC has no initiator, and so no peer table."""
        if not self._registers.parameters.has_initiator:
            raise fabric_error(
                Errno.FI_EOPNOTSUPP,
                f"{self._registers.device.name} has no initiator: it answers requests for its memory and sends none",
            )

    @property
    def free(self) -> list[int]:
        """Free entries, the one unused longest first."""
        return self._numbers.free

    def space(self, context: int) -> int:
        """Return the number of entries that a context can open: some are kept for the others."""
        return self._quota.space(context)

    def open(self, context: int, address: EndpointAddress, initiator: int) -> int:
        """Open a packet delivery context from ``context`` to ``address``; returns its index in the peer table.

        ``initiator``: the context by which the peer knows the sender. Raises FI_ENOSPC when the table is full, or
        the rest is kept for other contexts. Raises FI_EOPNOTSUPP if the NIC has no initiator.
        """
        self.require_initiator()
        self._quota.require(context)
        peer = self._numbers.take()
        self._quota.assign(peer, context)
        _log.debug("peer %d: %s, for context %d", peer, address, context)
        self.reopen(peer, context, address, initiator)
        return peer

    def reopen(self, peer: int, context: int, address: EndpointAddress, initiator: int) -> None:
        """Store an entry in use, which opens a new packet delivery context. Nothing may be outstanding on it."""
        self._opened += 1
        self._registers.write_wide("peers", "mac", int.from_bytes(address.mac, "big"))
        self._registers.write("peers", "ip", address.ip)
        self._registers.write("peers", "job_id", address.job_id)
        self._registers.write("peers", "pid_on_fep", address.pid_on_fep)
        self._registers.write("peers", "resource_index", address.resource_index)
        self._registers.write("peers", "initial_psn", self._first_psn(peer))
        # Source ports from the dynamic range spread flows over equal paths.
        self._registers.write("peers", "entropy", 0xC000 | (self._opened * 0x9E5) & 0x3FFF)
        (self._foreign.add if address.foreign else self._foreign.discard)(peer)
        flags = PeerFlags.VALID
        flags |= PeerFlags.RELATIVE if address.relative else 0
        flags |= 0 if address.foreign else PeerFlags.WHOLE_WINDOW
        self._registers.write("peers", "flags", flags)
        self._registers.write("peers", "context", context)
        self._registers.write("peers", "initiator", initiator)
        self._registers.write("peers", "store", peer)

    def is_foreign(self, peer: int) -> bool:
        """Whether the peer of an entry is no Amoeba."""
        return peer in self._foreign

    def close_requests(self, peers: Iterable[int]) -> list[int]:
        """Return those of some entries whose peers ask for a CLOSE of the packet delivery context."""
        words: dict[int, int] = {}
        asking = []
        for peer in peers:
            word = peer // 32
            if word not in words:
                words[word] = self._registers.read("peers", "close_requests", word)
            if words[word] >> peer % 32 & 1:
                asking.append(peer)
        return asking

    def fail(self, peer: int) -> None:
        """Give up an entry's packet delivery context now.

        Outstanding operations end with LOCAL_PDC_FAILED, and so do those posted until the entry is stored again. Once
        an operation has ended, the NIC no longer touches its memory.
        """
        _log.info("peer %d: given up by the driver", peer)
        self._registers.write("peers", "fail", peer)

    def _first_psn(self, peer: int) -> int:
        """Return the first PSN of the packet delivery context that is being opened.

        Every connection epoch has another first PSN, so that no late answer of an earlier one fits. Outsiders cannot
        guess the PSN: it is a hash of the epoch's number under a key of this NIC's, as RFC 6528 does for TCP. The
        distance from the entry's last first PSN is between 2**31 and 2**32 - 2**17: a target takes PSNs up to 2**16
        packets before known ones for older ones.

        Each PeerTable has its own key, also on a NIC that is opened again: its
        peers may still know its former PSNs. The key is random, unless all NICs are simulated in this process: a
        simulation repeats itself.
        """
        digest = blake2b(self._opened.to_bytes(8, "little"), key=self._key, digest_size=8).digest()
        number = int.from_bytes(digest, "little")
        last = self._first_psns.get(peer)
        psn = number & _PSN_MASK if last is None else last + (1 << 31) + number % _PSN_RANGE & _PSN_MASK
        self._first_psns[peer] = psn
        return psn

    def close(self, peer: int) -> None:
        """Invalidate an entry and free it. Nothing may be outstanding on it."""
        self._registers.write("peers", "flags", 0)
        self._registers.write("peers", "store", peer)
        self._numbers.release(peer)
        self._quota.release(peer)
        _log.debug("peer %d: closed", peer)
