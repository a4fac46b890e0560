"""Hosts that do honest work whatever happens around them, and know at any time what their memory must look like.

A flow is one context's way to one other host: a PDC, a region there that nobody else has the key of, and the order in
which all that is posted happens. So what each request finds is known when it is posted, and after a reset or a
context's end, which leave open how far a flow has come, its memory is that of one of so many moments.
"""

import itertools
import random
from collections import deque
from dataclasses import dataclass, field

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.network import Network, SimulatedDevice
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.trace import NO_CONTEXT
from amoeba_model.wire.uet import ReturnCode

from tests.support.raw_driver import RawContext, RawNic

__all__ = [
    "BOUND", "GUARD", "HONEST", "KINDS", "PLACES", "SLAB", "TENANT", "WEIGHTS", "Flow", "Host", "Numbers", "Request",
]  # fmt: skip

HONEST, TENANT = 2, 2
"""Contexts 0 and 1 of every NIC do honest work; 2 is somebody else's."""
SLAB = 4096
"""Bytes of a flow's region: a counter, a word to be swapped, and the rest for READs and WRITEs."""
COUNTER, SWAPPED, DATA = 0, 64, 128
LONGEST = SLAB - DATA
PLACES = 16
"""Requests that a flow has in flight at most."""
RING = 6
GUARD = b"\xa5"
KINDS = ("add", "fetch", "swap", "write", "read", "close")
WEIGHTS = (4, 6, 3, 6, 6, 1)
OK, FAILED = ReturnCode.OK, ReturnCode.LOCAL_PDC_FAILED
TIMEOUT, LIMIT = 2000, 8
"""Of retransmission: cycles, and timeouts in a row that a PDC bears."""
BOUND = 32 * (LIMIT + 1) * TIMEOUT
"""Cycles in which any request ends, whoever is silent: a timeout becomes no longer than 32 times the first."""
_INLINE = DescriptorFlags.COMPLETION | DescriptorFlags.INLINE
_WORD = {"datatype": Datatype.FI_UINT64, "length": 8}


@dataclass(eq=False)
class Request:
    """A posted operation, its required results, and its results."""

    kind: str
    number: int
    place: int
    """The number of the flow's local buffer that it uses."""
    posted: int
    """In this cycle."""
    data: bytes | None = None
    """The value that it must find; None: it fetches nothing."""
    before: list[bytes] = field(default_factory=list)
    """The flow's memory before each of its packets."""
    status: int | None = None


class Flow:
    """The operations of one context on one region of another host's."""

    def __init__(self, number: int, host: "Host", context: int, target: "Host", entry: int) -> None:
        self.number, self.host, self.context, self.target, self.entry = number, host, context, target, entry
        self.region = target.nic.buffer(3 * SLAB, fill=GUARD[0], context=NO_CONTEXT)
        self.content = bytearray(SLAB)
        self.region[SLAB] = bytes(SLAB)
        self.local = host.nic.buffer(PLACES * 2 * SLAB, context=context)
        self.outstanding: deque[Request] = deque()
        self.stale = False
        """A reset or a context's end has left open how far it has come: it is opened anew before it goes on."""
        self.doubtful: list[Request] = []
        """Requests since the last one that is known to have happened, when that was so."""
        self.requests: list[Request] = []
        self.found = b""
        """Its memory when it was opened anew."""
        self.slot: int | None = None
        self.key = 0

    @property
    def name(self) -> str:
        return f"flow {self.number}, context {self.context} of {self.host.name} to {self.target.name}"

    def open(self, key: int, psn: int) -> None:
        """Let its key and its peer entry be new ones; nothing is in flight."""
        self.close_key()
        self.key = key
        self.slot = self.target.nic.key(key, self.region.address + SLAB, SLAB)
        # The one context that is not restarted: what comes for one that is disabled is refused.
        named = self.target.contexts[TENANT]
        self.host.nic.peer(self.entry, named, context=self.context, initial_psn=psn)
        self.host.nic.settle()

    def close_key(self) -> None:
        """From now on, nothing that was sent before is executed."""
        if self.slot is not None:
            self.target.nic.withdraw(self.slot)
            self.slot = None

    def post(self, number: int, kind: str, seed: int, now: int) -> None:
        """One more request; there is a place for it."""
        taken = {request.place for request in self.outstanding}
        request = Request(kind, number, next(place for place in range(PLACES) if place not in taken), now)
        fields = self._fields(request, random.Random(f"{kind}/{seed}"))
        self.outstanding.append(request)
        self.requests.append(request)
        self.host.contexts[self.context].post(context=number, peer=self.entry, **fields)

    def _fields(self, request: Request, generator: random.Random) -> dict[str, int]:
        """The descriptor; what the request does is done to what is expected."""
        operand = self.local.address + request.place * 2 * SLAB
        fields = {"remote_key": self.key, "local": operand, "result": operand + SLAB}
        address = self.region.address + SLAB
        match request.kind:
            case "add" | "fetch":
                step = generator.randrange(1, 1 << 32)
                fields |= {"opcode": DescriptorOpcode.ATOMIC, "op": Op.FI_SUM, "flags": _INLINE, "local": step,
                           "remote_address": address + COUNTER, **_WORD}  # fmt: skip
                if request.kind == "fetch":
                    fields["opcode"] = DescriptorOpcode.FETCH_ATOMIC
                    request.data = bytes(self.content[COUNTER : COUNTER + 8])
                value = int.from_bytes(self.content[COUNTER : COUNTER + 8], "little") + step
                self._becomes(request, COUNTER, (value % (1 << 64)).to_bytes(8, "little"))
            case "swap":
                found = bytes(self.content[SWAPPED : SWAPPED + 8])
                compared = found if generator.random() < 0.7 else generator.randbytes(8)
                wanted = generator.randbytes(8)
                self.local[request.place * 2 * SLAB] = wanted + bytes(56) + compared
                fields |= {"opcode": DescriptorOpcode.COMPARE_ATOMIC, "op": Op.FI_CSWAP, "compare": operand + 64,
                           "remote_address": address + SWAPPED, **_WORD}  # fmt: skip
                request.data = found
                self._becomes(request, SWAPPED, wanted if compared == found else found)
            case "close":
                fields = {"opcode": DescriptorOpcode.CLOSE}
                request.before.append(bytes(self.content))
            case "repair":
                wanted = bytes(self.content)
                self.content[:] = self.found
                fields |= {"length": SLAB, "remote_address": address}
                self._move(request, fields, 0, wanted)
            case _:
                length = generator.choice((0, 1, 8, 31, 64, 300, 900, 1500, LONGEST))
                place = DATA + generator.randrange(LONGEST - length + 1)
                fields |= {"length": length, "remote_address": address + place}
                self._move(request, fields, place, generator.randbytes(length))
        return fields

    def _move(self, request: Request, fields: dict[str, int], place: int, data: bytes) -> None:
        if request.kind in ("write", "repair"):
            fields["opcode"] = DescriptorOpcode.WRITE
            self.local[request.place * 2 * SLAB] = data
            piece = self.host.parameters.payload
            for start in range(0, max(len(data), 1), piece):
                self._becomes(request, place + start, data[start : start + piece])
        else:
            fields["opcode"] = DescriptorOpcode.READ
            request.data = bytes(self.content[place : place + len(data)])
            request.before.append(bytes(self.content))

    def _becomes(self, request: Request, place: int, data: bytes) -> None:
        request.before.append(bytes(self.content))
        self.content[place : place + len(data)] = data

    def complete(self, entry: dict[str, int]) -> None:
        """The next completion of the flow's."""
        assert self.outstanding, f"{self.name}: completed, and never posted: {entry}"
        request = self.outstanding.popleft()
        assert entry["context"] == request.number, f"{self.name}: request {request.number} was to end before {entry}"
        request.status = entry["status"]
        assert self.stale or request.status == OK, f"{self.name}: {request.kind} {request.number} ended with {entry}"
        if request.status == OK and request.data is not None:
            start = (request.place * 2 + 1) * SLAB
            found = self.local[start : start + len(request.data)]
            assert found == request.data, f"{self.name}: {request.kind} {request.number} found what is not there"

    def interrupt(self, *, ended: bool) -> None:
        """Leave open how far it has come; ``ended``: nothing of what is in flight will be reported any more."""
        if not self.stale:
            self.doubtful = list(self.outstanding)
        self.stale = True
        if ended:
            self.outstanding.clear()

    def settle(self) -> None:
        """Its memory is that of some moment since the last request that was reported done.

        It stays so: the key of before is no longer valid. A "repair" then makes it what all that was posted makes of
        it, so that what follows does not depend on how far the flow had come.
        """
        happened = [request.status == OK and request.kind != "close" for request in self.doubtful]
        done = max((place for place, sure in enumerate(happened) if sure), default=-1)
        moments = [moment for request in self.doubtful[done + 1 :] for moment in request.before]
        moments.append(bytes(self.content))
        found = self.region[SLAB : 2 * SLAB]
        cut_short = len(self.doubtful)
        assert found in moments, f"{self.name}: memory as at no moment, after {cut_short} that were cut short"
        self.doubtful = []
        self.stale = False
        self.found = found

    def check(self) -> None:
        """At the end, with nothing in flight."""
        assert self.region[SLAB : 2 * SLAB] == bytes(self.content), f"{self.name}: memory is not what was written"
        guard = GUARD * SLAB
        assert self.region[:SLAB] == self.region[2 * SLAB :] == guard, f"{self.name}: bytes beside its region"


class Host:
    """A NIC with two honest contexts and one that is not."""

    def __init__(self, number: int, device: SimulatedDevice, network: Network, parameters: NicParameters) -> None:
        self.number, self.device, self.parameters = number, device, parameters
        self.mac, self.ip = 0x0200_0000_0000 | number, 0x0A00_0000 | number
        self.name = f"NIC {number}"
        network.attach(device, self.mac.to_bytes(6, "big"))
        self.arrived = 0
        """Frames for the NIC since it was reset last."""
        self._overflowed = 0
        self._earlier: list[RawNic] = []
        """Of its lives before, whose buffers may not be anybody else's."""
        self._deliver = device.deliver
        device.deliver = self._count  # type: ignore[method-assign]
        self.start()

    def _count(self, frame: bytes, cycle: int) -> None:
        self.arrived += 1
        self._deliver(frame, cycle)

    def start(self) -> None:
        """Set the NIC up, as a driver does that has just started."""
        self.nic = RawNic(self.device, self.mac, self.ip, self.parameters)
        self._earlier.append(self.nic)
        self.nic.private = True
        self.nic.answer_memory()
        self.nic.set("device", retransmit_timeout=TIMEOUT, retransmit_limit=LIMIT)
        self.contexts = [self.make_context(number) for number in range(HONEST + 1)]

    def make_context(self, number: int) -> RawContext:
        return self.nic.context(number, transmit_size=RING, completion_size=RING)

    def restart(self, number: int) -> None:
        """Disable a context, and enable it with other rings."""
        self.nic.set("contexts", number, control=0)
        self.nic.settle()
        self.contexts[number] = self.make_context(number)

    @property
    def overflowed(self) -> int:
        """Frames that its MAC had no space for since then."""
        return self.device.overflowed - self._overflowed

    def reset(self) -> None:
        self.device.function_reset()
        self.arrived = 0
        self._overflowed = self.device.overflowed
        self.start()


class Numbers:
    """Keys and first psns that come once: as random as a driver's, from the program's seed."""

    def __init__(self, seed: int) -> None:
        self._generator = random.Random(f"numbers/{seed}")
        self._blocks = itertools.count(1)

    def key(self) -> int:
        return self._generator.getrandbits(63) | 1

    def psn(self) -> int:
        return next(self._blocks) << 20
