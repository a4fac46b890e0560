"""Messages beyond the NIC's lists are taken over in order: random runs against a NIC whose rings never agree.

Nothing may depend on how far the NIC is ahead. The rules that are checked are those of one list of receives and one
of messages without end: a message meets the oldest receive that wants it, a receive the oldest message of a sender.

Covers ``nic/event_ring.py``, ``nic/records.py``, ``transport/dispatch.py``, ``transport/match_index.py``,
``transport/receive.py``, ``transport/receives.py``, ``transport/rendezvous.py`` and ``transport/unexpected.py``.
"""

import random
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from amoeba.core.buffers import address_of
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.nic.address import EndpointAddress
from amoeba.transport.receives import ANYBODY, Receive
from amoeba.transport.rendezvous import Record
from amoeba_model.descriptors import ReceiveOpcode
from amoeba_model.registers import TargetPdcState
from amoeba_model.wire.uet import ReturnCode

from tests.driver.transport.asynchronous import CONTEXT, AsynchronousNic

OK, NO_MATCH, CANCELLED = int(ReturnCode.OK), int(ReturnCode.NO_MATCH), int(ReturnCode.CANCELLED)
INITIATOR_ERROR = int(ReturnCode.INITIATOR_ERROR)
SENDERS = ((0x0A000001, 1), (0x0A000002, 7))
TAGS = 3
ANY = (1 << 64) - 1
HOME = EndpointAddress(bytes(6), 0, 0, 0, 0)
LONG = 1000


@dataclass(eq=False)
class Sent:
    """A message: its number is what it says."""

    number: int
    source: tuple[int, int]
    tag: int
    tagged: bool
    long: bool
    parts: int = 1
    """Packets of the message."""
    begun: int = 0
    """Packets that have come."""
    given_up: bool = False
    """Its sender repeats it no more."""
    accepted: int = -1
    """The message's number in its order of arrival."""
    met: "Asked | None" = None

    @property
    def data(self):
        return self.number.to_bytes(4, "little")


@dataclass(eq=False)
class Asked:
    """A receive, or a search that takes the message."""

    number: int
    receive: Receive
    over: bool = False
    cancelled: bool = False
    asked_back: bool = False
    got: list[Sent] = field(default_factory=list)

    def wants(self, sent):
        receive = self.receive
        return (
            receive.tagged == sent.tagged
            and not (receive.tagged and (receive.tag ^ sent.tag) & ~receive.ignore)
            and receive.source in (ANYBODY, sent.source)
        )


class Run:
    """One random run."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.nic = AsynchronousNic(*self.random.choice([(2, 2), (2, 2), (1, 3), (4, 2)]))
        self.receives = self.nic.receives
        self.asked = []
        self.sent = []
        self.queues = {source: [] for source in SENDERS}
        self.accepted = 0
        self.refused = 0

    # What may happen

    def send(self):
        choice = self.random
        sent = Sent(
            len(self.sent),
            choice.choice(SENDERS),
            choice.randrange(TAGS),
            choice.random() < 0.9,
            choice.random() < 0.1,
        )
        if not sent.long and choice.random() < 0.3:
            sent.parts = choice.choice([2, 4])
        self.sent.append(sent)
        self.queues[sent.source].append(sent)

    def come(self, source):
        """The oldest message of a sender comes, or is refused."""
        queue = self.queues[source]
        if not queue:
            return False
        sent = queue[0]
        if sent.parts > 1:
            return self.come_in_parts(queue, sent)
        record = Record(sent.number, 0, HOME).pack() if sent.long else None
        tag = sent.tag if sent.tagged else 0
        if not self.nic.accept(source, tag, sent.data, tagged=sent.tagged, record=record, length=LONG):
            self.refused += 1
            return False
        sent.accepted = self.accepted
        self.accepted += 1
        queue.pop(0)
        return True

    def come_in_parts(self, queue, sent):
        """A packet of several comes, or the end of the message before its last; a refused message begins anew."""
        if sent.begun and self.random.random() < 0.05:
            queue.pop(0)
            sent.given_up = True
            self.nic.give_up(sent.source)
            return True
        size = 4 // sent.parts
        offset, tag = sent.begun * size, sent.tag if sent.tagged else 0
        part = sent.data[offset : offset + size]
        if not self.nic.accept_part(sent.source, tag, part, offset, 4, tagged=sent.tagged):
            self.refused += 1
            begun, sent.begun = sent.begun, 0
            return begun > 0
        if not sent.begun:
            sent.accepted = self.accepted
            self.accepted += 1
        sent.begun += 1
        if sent.begun == sent.parts:
            queue.pop(0)
        return True

    def pattern(self, size):
        choice = self.random
        buffer = memoryview(bytearray(size))
        tagged = choice.random() < 0.9
        ignore = choice.choice([0, 0, 1, ANY]) if tagged else 0
        tag = choice.randrange(TAGS) if tagged else 0
        source = choice.choice([ANYBODY, ANYBODY, *SENDERS])
        asked = Asked(len(self.asked), None)
        asked.receive = Receive(tagged, tag, ignore, source, asked, 0, (buffer,), buffer)
        asked.receive.address, asked.receive.length = address_of(buffer), size
        return asked

    def ask(self):
        asked = self.pattern(LONG)
        asked.receive.grants = ((asked.receive.address, LONG, True),)
        if self.random.random() < 0.1:
            asked.receive.multi = True
            asked.receive.buffers = (asked.receive.buffers[0][:200],)  # three or four, aligned
            asked.receive.length = 200
        self.asked.append(asked)
        self.receives.post(asked.receive, 4, 0)
        self.read_all()

    def look(self):
        """A search: one that takes the message counts as a receive that is over at once."""
        asked = self.pattern(4)
        takes = self.random.random() < 0.7
        asked.receive.opcode = int(ReceiveOpcode.TAKE if takes else ReceiveOpcode.PEEK)

        def found(event, message):
            asked.data = bytes(message)
            return 0

        asked.receive.found = found
        if not self.receives.has_space(asked.receive.opcode):
            return
        if takes:
            self.asked.append(asked)
        else:
            asked.peeks = True
        self.receives.post(asked.receive, 0, 0)
        self.read_all()

    def take(self):
        """A message taken out of what the driver knows, and received a while later."""
        asked = self.pattern(4)
        waits = self.receives.oldest(asked.receive)
        claim = self.receives.take(asked.receive)
        assert (waits is None) == (claim is None)
        if claim is None:
            return
        assert claim.event == waits
        self.asked.append(asked)
        number = Record.unpack(memoryview(claim.data), 0).key if claim.event.flags & 16 else None
        sent = self.sent[int.from_bytes(claim.data, "little") if number is None else number]
        self.got(asked, sent)
        asked.over = True

    def cancel(self):
        running = [asked for asked in self.asked if not asked.over and asked.receive.opcode == ReceiveOpcode.RECEIVE]
        if running:
            asked = self.random.choice(running)
            asked.asked_back |= self.receives.cancel(asked)
            self.read_all()

    def read_long(self):
        if self.nic.read:
            number, done = self.nic.read.pop(self.random.randrange(len(self.nic.read)))
            self.read_all()
            done(OK)
            self.got(self.nic.dispatch.ready[-1].context, self.sent[number])
            self.read_all()

    # What is told

    def got(self, asked, sent):
        assert sent.met is None, f"message {sent.number} was received twice"
        assert asked.wants(sent), f"{asked} got {sent}"
        sent.met = asked
        asked.got.append(sent)

    def read_all(self):
        ready = self.nic.dispatch.ready
        while ready:
            arrival = ready.popleft()
            asked = arrival.context
            receive = asked.receive
            if receive.opcode != ReceiveOpcode.RECEIVE:
                self.answered(asked, arrival)
                continue
            if arrival.status == CANCELLED:
                assert asked.asked_back
                asked.cancelled = asked.over = True
                continue
            if arrival.status == INITIATOR_ERROR:
                asked.cancelled = asked.over = receive.released
                assert asked.over
                continue
            if arrival.length + arrival.olen != LONG:  # of long ones :meth:`read_long` has heard
                place = arrival.buf - receive.address if receive.multi else 0
                data = bytes(receive.buffers[0][place : place + 4])
                assert (arrival.length, arrival.status) == (4, OK)
                self.got(asked, self.sent[int.from_bytes(data, "little")])
            asked.over = receive.released and not receive.reading

    def answered(self, asked, arrival):
        assert not asked.over
        asked.over = True
        if arrival.status == NO_MATCH:
            asked.cancelled = True  # it may be overtaken
            return
        assert arrival.status == OK
        if hasattr(asked, "peeks"):
            return
        number = int.from_bytes(asked.data, "little") if len(asked.data) == 4 else Record.unpack(
            memoryview(asked.data), 0
        ).key  # fmt: skip
        self.got(asked, self.sent[number])

    def go(self, steps):
        acts = [self.send, self.ask, self.look, self.take, self.cancel, self.read_long]
        weights = [5, 5, 1, 1, 1, 2]
        for _ in range(steps):
            what = self.random.random()
            if what < 0.45:
                self.random.choices(acts, weights)[0]()
            elif what < 0.6:
                self.come(self.random.choice(SENDERS))
            elif what < 0.75:
                self.nic.step()
            elif what < 0.8:
                self.nic.free()
            else:
                self.nic.see()
                self.read_all()
        self.finish()

    def finish(self):
        again = True
        while again:
            self.nic.settle()
            while self.nic.read:
                self.read_long()
            self.read_all()
            again = bool(sum(self.come(source) or self.end_refused(source) for source in SENDERS))
        assert not any(self.queues.values()), "a sender is still refused"
        self.check()

    def end_refused(self, source):
        """Let a sender give up what is refused though nothing goes on any more: no receive may be waiting for it."""
        queue = self.queues[source]
        begun = any(sent.begun for others in self.queues.values() for sent in others)
        if not queue or queue[0].parts == 1 or begun or self.nic.ring_of_events.events:
            return False
        sent = queue.pop(0)
        sent.given_up = True
        held = list(self.receives._held)
        hungry = [asked for asked in self.asked if not asked.over and asked.wants(sent)]
        assert all(asked.receive in held for asked in hungry), f"{sent} and {hungry[0]} never met"
        return True

    # What must be so

    def check(self):
        for sent in self.sent:
            if sent.met is None and not sent.given_up:
                hungry = [asked for asked in self.asked if not asked.over and asked.wants(sent)]
                assert not hungry, f"{sent} and {hungry[0]} never met"
        for asked in self.asked:
            assert asked.over or asked.receive.opcode == ReceiveOpcode.RECEIVE, f"{asked} has no answer"
            for got in asked.got:
                self.check_messages(asked, got)
                self.check_receives(asked, got)

    def check_messages(self, asked, got):
        """No older message of the same sender was overtaken."""
        for older in self.sent[: got.number]:
            if older.source == got.source and asked.wants(older) and older not in asked.got:
                assert older.met or older.given_up, f"{older} was overtaken by {got}"
                assert not older.met or older.met.number < asked.number, f"{older} was overtaken by {got}"

    def check_receives(self, asked, got):
        """No older receive was overtaken."""
        for older in self.asked[: asked.number]:
            if older.receive.opcode == ReceiveOpcode.RECEIVE and older.wants(got) and not older.cancelled:
                assert older.over, f"{older} was overtaken by {asked}"
                assert max(met.accepted for met in older.got) < got.accepted, f"{older} was overtaken by {asked}"


def run(seed, steps=150):
    try:
        Run(seed).go(steps)
    except BaseException as error:
        module = "tests.driver.transport.test_software_matching"
        error.add_note(f"reproduce: python -c 'from {module} import run; run({seed})'")
        raise


@pytest.mark.parametrize("seed", range(0, 1000, 500))
def test_whatever_happens_when_nothing_starves_and_nothing_is_overtaken(seed):
    for number in range(seed, seed + 500):
        run(number)


class EndedPdcs:
    """Target PDCs of both senders that end, by themselves, between a look at them and the order to close them."""

    asked = 0

    def used(self):
        return [SimpleNamespace(number=0, ip=ip, context=CONTEXT, state=TargetPdcState.OPEN) for ip, _ in SENDERS]

    def close(self, pdc):
        self.asked += 1
        raise fabric_error(Errno.FI_EALREADY, f"target PDC {pdc.number} is closed")


def test_b6_senders_beyond_their_quota_change_nothing_of_that():
    pdcs = EndedPdcs()
    for number in range(500):
        one = Run(number)
        one.receives.unread.quota = one.random.choice([0, 1500, 4000])
        one.nic.target_pdcs = pdcs
        one.go(150)
        one.nic.dispatch.progress()  # which turns senders away
        assert one.receives.turned_away == 0
        kept = list(one.receives._kept)
        assert one.receives.unread.size == sum(1024 + (32 if message.event.flags & 16 else 4) for message in kept)
    assert pdcs.asked


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10_000, 30_000, 2_500))
def test_twenty_thousand_times_nothing_starves_and_nothing_is_overtaken(seed):
    for number in range(seed, seed + 2_500):
        run(number)
