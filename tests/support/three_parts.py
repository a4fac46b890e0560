"""A message of ``LENGTH`` bytes that a stranger sends in three packets."""

from typing import Any

from amoeba_model.wire.uet import SesFlags, message_place

from tests.support.stranger import Stranger

LENGTH, FIRST, SECOND = 100, 40, 33
"""Bytes of the message, of its first packet, and of its second."""
DATA = 0xDA7A
"""Immediate data, in the first packet."""
START, END, HEADER_DATA = SesFlags.START_OF_MESSAGE, SesFlags.END_OF_MESSAGE, SesFlags.HEADER_DATA


class ThreeParts:
    """The packets of one message; whoever sends them adds the fields that say what becomes of the message."""

    stranger: Stranger
    content: bytes = bytes(range(1, LENGTH + 1))

    def fields(self, at: int, end: int, **fields: Any) -> dict[str, Any]:
        """Return the header fields of the packet with bytes ``at`` to ``end``."""
        flags = (START | HEADER_DATA if at == 0 else 0) | (END if end == LENGTH else 0)
        place = message_place(end - at, at) if at else DATA
        return {"flags": flags, "header_data": place, "message_id": 9, "request_length": LENGTH, **fields}

    def part(self, at: int, end: int, **fields: Any) -> int:
        """Send bytes ``at`` to ``end`` of the message; the return code."""
        answer = self.stranger.ask(self.content[at:end], **self.fields(at, end, **fields))
        assert not answer.header.is_control
        return answer.header.return_code

    def first(self, **fields: Any) -> int:
        return self.part(0, FIRST, **fields)

    def second(self, **fields: Any) -> int:
        return self.part(FIRST, FIRST + SECOND, **fields)

    def last(self, **fields: Any) -> int:
        return self.part(FIRST + SECOND, LENGTH, **fields)
