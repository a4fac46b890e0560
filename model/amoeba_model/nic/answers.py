"""AnswerStore: the last answers of every target PDC, for packets that are received again."""

from typing import NamedTuple

from amoeba_model.descriptors import ANSWER_INLINE_SIZE
from amoeba_model.nic.core import Core
from amoeba_model.nic.host import HostMemory
from amoeba_model.trace import NO_CONTEXT, Requester
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import ReturnCode

__all__ = ["AnswerStore", "KeptAnswer"]

_OK = ReturnCode.OK.value


class KeptAnswer(NamedTuple):
    psn: int
    code: int
    """Return code."""
    message_id: int
    job_id: int
    modified_length: int
    size: int
    """Bytes of data."""
    inline: bytes
    """The data, if it is kept on the chip."""
    given: int
    """Cycle in which the answer is sent."""
    returned: bool = False
    """The data is not in the answer, but in the return direction."""


class AnswerStore:
    """Keeps the answers of each PDC's last ``window`` packets.

    Data of at most ANSWER_INLINE_SIZE bytes is kept here, longer data in the answer memory, where every PDC and every
    psn modulo ``window`` has a place of ``payload`` bytes.
    """

    def __init__(self, core: Core, host: HostMemory) -> None:
        self._core = core
        self._host = host
        self._window = core.parameters.window
        self._kept: dict[int, KeptAnswer] = {}
        """By place."""

    def keep(
        self, request: FrameHeader, pdc: int, code: int, data: bytes, given: int, *, returned: bool = False
    ) -> KeptAnswer:
        """Keep the answer to a request, which is about to be sent, in the place of the one ``window`` before it."""
        place = self._place(pdc, request.psn)
        size = len(data)
        if size > ANSWER_INLINE_SIZE:
            if self._core.answer_base:
                self._host.write(self._address(place), data, Requester.ANSWER_WRITER, NO_CONTEXT)
            data = b""
        modified_length = request.request_length if code == _OK else 0
        kept = KeptAnswer(
            request.psn, code, request.message_id, request.job_id, modified_length, size, data, given, returned
        )
        self._kept[place] = kept
        return kept

    def find(self, pdc: int, psn: int, cycle: int) -> KeptAnswer | None:
        """Find the answer to a packet, if it is kept and was given by ``cycle``."""
        kept = self._kept.get(self._place(pdc, psn))
        return kept if kept is not None and kept.psn == psn and kept.given <= cycle else None

    def data(self, pdc: int, kept: KeptAnswer) -> bytes | None:
        """Its data; None if that is out of reach."""
        if kept.size <= ANSWER_INLINE_SIZE:
            return kept.inline
        if not self._core.answer_base:
            return None
        place = self._place(pdc, kept.psn)
        return self._host.read(self._address(place), kept.size, Requester.ANSWER_FETCH, NO_CONTEXT)

    def forget(self, pdc: int) -> None:
        """Drop the answers of a PDC, which is opened anew."""
        for place in range(pdc * self._window, (pdc + 1) * self._window):
            self._kept.pop(place, None)

    def _place(self, pdc: int, psn: int) -> int:
        return pdc * self._window + psn % self._window

    def _address(self, place: int) -> int:
        return self._core.answer_base + place * self._core.parameters.payload
