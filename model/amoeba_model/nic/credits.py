"""``TargetCredits``: event entries and unexpected slots, of which a request needs some before it is accepted."""

from amoeba_model.nic.core import Core
from amoeba_model.nic.events import EventWriter
from amoeba_model.nic.matcher import Matcher
from amoeba_model.nic.tables import Context
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import MESSAGE_REQUESTS, SesFlags

__all__ = ["TargetCredits"]

_HEADER_DATA = SesFlags.HEADER_DATA.value
_START, _END = SesFlags.START_OF_MESSAGE.value, SesFlags.END_OF_MESSAGE.value
_MESSAGES = frozenset(opcode.value for opcode in MESSAGE_REQUESTS)


class TargetCredits:
    """The event rings and the unexpected slots of all contexts, as the PdcTable asks for them.

    Requests are executed one at a time, and each uses its entries before the next is looked at. So nothing needs to
    be reserved between the question and the use.
    """

    def __init__(self, core: Core, contexts: list[Context], events: EventWriter, matcher: Matcher) -> None:
        self._messages: frozenset[int] = _MESSAGES if core.parameters.has_messages else frozenset()
        self._contexts = contexts
        self._events = events
        self._matcher = matcher

    def is_enabled(self, context: int) -> bool:
        return self._contexts[context].enabled

    def has_space(self, header: FrameHeader, data_pending: bool) -> bool:
        """Whether the event entry and the slot that the request may need are free.

        ``data_pending``: the request that its PDC has begun has immediate data. The event is written at the end.
        """
        is_message = header.opcode in self._messages
        if is_message and not header.flags & _START:
            return True  # the entry is kept for it since its message began
        has_data = data_pending if not header.flags & _START else bool(header.flags & _HEADER_DATA)
        has_event = has_data and bool(header.flags & _END)
        if not (is_message or has_event) or header.resource_index >= len(self._contexts):
            return True
        target = self._contexts[header.resource_index]
        context = target.receiver if is_message and target.enabled else target
        if not (context.enabled and context.events.base):
            return True
        if is_message and context.unexpected_base:
            return self._events.has_space(context) and self._matcher.has_place(context, header)
        return not has_event or self._events.has_space(context)
