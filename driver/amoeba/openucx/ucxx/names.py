"""Numbers that have a type of their own: features, tags and their masks, operations of atomics."""

import enum
from typing import Any, NamedTuple

from amoeba.openucx.ucp.constants import ucp_atomic_op_t, ucp_feature

__all__ = [
    "ALL_FEATURES",
    "AtomicOp",
    "Feature",
    "Tag",
    "TagMask",
    "TagMaskFull",
    "TagProbeResult",
    "UCXXTag",
    "UCXXTagMask",
    "UCXXTagMaskFull",
]


class Feature(enum.IntFlag):
    """The features of a context: ``ucp_feature`` under short names."""

    TAG = ucp_feature.UCP_FEATURE_TAG
    RMA = ucp_feature.UCP_FEATURE_RMA
    AMO32 = ucp_feature.UCP_FEATURE_AMO32
    AMO64 = ucp_feature.UCP_FEATURE_AMO64
    WAKEUP = ucp_feature.UCP_FEATURE_WAKEUP
    STREAM = ucp_feature.UCP_FEATURE_STREAM
    AM = ucp_feature.UCP_FEATURE_AM


ALL_FEATURES = tuple(Feature)


class AtomicOp(enum.IntEnum):
    """The operation of an atomic: ``ucp_atomic_op_t`` under short names."""

    ADD = ucp_atomic_op_t.UCP_ATOMIC_OP_ADD
    SWAP = ucp_atomic_op_t.UCP_ATOMIC_OP_SWAP
    CSWAP = ucp_atomic_op_t.UCP_ATOMIC_OP_CSWAP
    AND = ucp_atomic_op_t.UCP_ATOMIC_OP_AND
    OR = ucp_atomic_op_t.UCP_ATOMIC_OP_OR
    XOR = ucp_atomic_op_t.UCP_ATOMIC_OP_XOR


class Tag(int):
    """A tag of 64 bits; ``value`` is the tag as a number. Plain numbers do as well."""

    @property
    def value(self) -> int:
        return int(self)


class TagMask(Tag):
    """The bits of a tag that must match."""


TagMaskFull = TagMask(2**64 - 1)
"""All bits."""
UCXXTag = Tag
UCXXTagMask = TagMask
UCXXTagMaskFull = TagMaskFull


class TagProbeResult(NamedTuple):
    """The result of a probe."""

    matched: bool
    sender_tag: int
    length: int
    """Bytes of the message."""
    handle: Any
    """For :meth:`Worker.tag_recv_with_handle`; None unless the probe has removed the message."""
