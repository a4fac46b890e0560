"""The streams between the blocks of the PCIe endpoint, and the port that an adapter to a link's IP serves.

The blocks and their streams::

    Core.reads, .writes, .irq                 Core.accesses, .read_data
      |                                          |
    ReadRequester, CompletionBuffer,          Completer, MsixTable
    WriteRequester, RequestMerger                |
      |  requests   ^ completions                ^ register_requests   | register_completions
    =================================  PcieLinkSignature  =================================
      RQ            RC                           CQ                    CC          (ultrascale.py, or a root in C++)

- Headers are declared in :mod:`amoeba_model.tlp`. Payloads are packed: DW ``i`` of the payload lies from bit
  ``32 * i`` on in the beats laid end to end, wherever its address lies in a line. All beats but the last are full.
- Tags belong to CompletionBuffer, which gives one to each read and takes it back; 32, or 256 with extended tags.
- Space for completions belongs to CompletionBuffer, too: it is reserved before a read is asked, so ``completions``
  is never refused for long, and an adapter needs no buffer of its own.
- Order belongs to RequestMerger: the carrier of ``requests`` must keep writes among each other, and reads behind
  writes. It may let writes pass reads that wait for credits.
- Credits belong to the link: ``requests.ready`` says that there are some for a write, ``read_credit`` for a read.
- Configuration belongs to the link, too. FunctionReset turns ``bus_master`` and a function level reset into the
  ``run`` of RequestMerger; nobody else looks at ``bus_master``.
- The interrupt vectors' addresses, data and masks belong to MsixTable, which sends ``MSIX_MESSAGE`` to RequestMerger.
"""

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.tlp import COMPLETION_HEADER as COMPLETION_RECORD
from amoeba_model.tlp import REGISTER_COMPLETION as REGISTER_COMPLETION_RECORD
from amoeba_model.tlp import REGISTER_REQUEST as REGISTER_REQUEST_RECORD
from amoeba_model.tlp import REQUEST_HEADER as REQUEST_RECORD

from amoeba_hw.layout import struct_layout

__all__ = [
    "COMPLETION_HEADER",
    "CONFIGURATION",
    "INTERRUPT_USER",
    "MSIX_MESSAGE",
    "READ_START",
    "REGISTER_COMPLETION",
    "REGISTER_REQUEST",
    "REQUEST_HEADER",
    "WRITE_NUMBER_BITS",
    "PcieLinkSignature",
    "completion_beat",
    "request_beat",
]

REQUEST_HEADER = struct_layout(REQUEST_RECORD)
COMPLETION_HEADER = struct_layout(COMPLETION_RECORD)
REGISTER_REQUEST = struct_layout(REGISTER_REQUEST_RECORD)
"""A request to a BAR, payload included, as one beat: the adapter drops what is beyond two DWs."""
REGISTER_COMPLETION = struct_layout(REGISTER_COMPLETION_RECORD)
"""An answer to a request to a BAR, payload included, as one beat."""

INTERRUPT_USER = 0xFF
"""``user`` of a write that is an interrupt."""


def request_beat(width: int) -> data.StructLayout:
    """One beat of a request. ``header`` is valid with ``first``; a read has one beat, whose data is undefined.

    A write has as many beats as its ``dwords`` need, and once begun it waits for nothing. In the last beat, what is
    beyond the last DW is undefined.
    """
    return data.StructLayout({"header": REQUEST_HEADER, "data": width, "first": 1, "last": 1})


def completion_beat(width: int) -> data.StructLayout:
    """One beat of a completion. ``header`` is valid with ``first``; one without payload has one beat.

    A completion has as many beats as its ``dwords`` need. In the last beat, what is beyond the last DW is undefined.
    """
    return data.StructLayout({"header": COMPLETION_HEADER, "data": width, "first": 1, "last": 1})


CONFIGURATION = data.StructLayout(
    {
        "max_payload": 3,  # Max_Payload_Size: 128 bytes << code
        "max_read_request": 3,  # Max_Read_Request_Size: 128 bytes << code
        "read_completion_boundary": 1,  # 0: 64 bytes, 1: 128. Completions may be cut at its multiples
        "extended_tags": 1,  # Extended Tag Field Enable: 256 tags instead of 32
        "bus_master": 1,  # Bus Master Enable
        "memory_space": 1,  # Memory Space Enable
        "msix_enable": 1,  # MSI-X Enable
        "msix_mask": 1,  # MSI-X Function Mask
    }
)
"""Settings of software in the configuration space. They may change at any time: packets already cut stay as they are.
"""

MSIX_MESSAGE = data.StructLayout({"address": 64, "data": 32})
"""An interrupt that is due: one DW to write. The low two bits of the address are 0."""

READ_START = data.StructLayout({"address": 12, "length": 13, "last": 1, "each": 1})
"""A read that is about to be asked: the low bits of its address, its bytes (1 to 4,096), and whether it is the last
one of its READ_REQUEST, or each of its lines is a READ_REQUEST of its own. It lies within one 4 KiB page; no line
belongs to two reads of one READ_REQUEST."""

WRITE_NUMBER_BITS = 16
"""Lines of writes are counted modulo this power of two; far fewer are between the core and the link."""


class PcieLinkSignature(wiring.Signature):
    """The endpoint's side of a link, as the NIC drives it.

    Members
    -------
    requests : :func:`request_beat` stream, Out
    read_credit : In(1)
        The link takes a read now without making the writes behind it wait. It may fall at any time; a read on offer
        stays on offer. An adapter that learns of credits late leaves a margin.
    completions : :func:`completion_beat` stream, In
    register_requests : REGISTER_REQUEST stream, In
        In the order in which they came over the link. Never waits for ``requests``.
    register_completions : REGISTER_COMPLETION stream, Out
        In the order of the requests.
    configuration : CONFIGURATION, In
    """

    def __init__(self, width):
        super().__init__(
            {
                "requests": Out(stream.Signature(request_beat(width))),
                "read_credit": In(1),
                "completions": In(stream.Signature(completion_beat(width))),
                "register_requests": In(stream.Signature(REGISTER_REQUEST)),
                "register_completions": Out(stream.Signature(REGISTER_COMPLETION)),
                "configuration": In(CONFIGURATION),
            }
        )
