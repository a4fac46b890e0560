"""The model's initiator between the same memory and answers as the hardware's."""

import dataclasses

from amoeba_model.descriptors import COMPLETION
from amoeba_model.nic.capabilities import Capabilities
from amoeba_model.nic.core import Core
from amoeba_model.nic.initiator import Initiator
from amoeba_model.nic.peers import Peer
from amoeba_model.nic.rings import EntryRing, Interrupts
from amoeba_model.nic.tables import Context
from amoeba_model.wire.codec import FrameHeader

from tests.hw.initiator.environment import PSN_KEY, response


class ModelInitiator:
    """The model's initiator with the same memory around it; it acts at once."""

    def __init__(self, parameters, memory, contexts, peers, answer):
        self.core = Core(parameters)
        self.core.psn_key = PSN_KEY
        self.frames = []
        self.completions = []
        self.counted = []
        self.results = {}
        self._memory = memory
        self._answer = answer
        self._entries = [Peer(**peers[i]) if i in peers else Peer() for i in range(parameters.peers)]
        self._contexts = []
        for number, settings in sorted(contexts.items()):
            ring = EntryRing(settings["completion_base"], settings["completion_size"])
            own = {name: value for name, value in settings.items() if not name.startswith("completion_")}
            self._contexts.append(Context(number, completions=ring, **own))
        interrupts = Interrupts(self.core)
        self._initiator = Initiator(
            self.core, self, Capabilities(parameters), self._contexts, self._entries, self, interrupts, self
        )

    def run(self, tails):
        """Ring every context's doorbell and go on until nothing moves; completions are consumed at once."""
        for context, tail in zip(self._contexts, tails, strict=True):
            self._initiator.ring_doorbell(context, tail)
        moved = -1
        answered = 0
        while moved != (moved := len(self.frames) + len(self.completions)):
            self._initiator.run()
            for header, payload in list(self.frames[answered:]):
                fields = dataclasses.asdict(header)
                fields["payload_length"] = len(payload)
                return_code, content = self._answer(fields, payload)
                self._initiator.receive(FrameHeader(**response(fields, return_code, content)), content, 0)
                answered += 1
            for context in self._contexts:
                self._initiator.consume(context, context.completions.written)

    # The model's host memory, transmitter and event counters.

    def read(self, address, size, requester, context):
        return self._memory.read(address, size)

    def write(self, address, content, requester, context):
        if requester.name == "COMPLETION_WRITER":
            self.completions.append(COMPLETION.unpack(content) | {"address": address})
        else:
            self.results.update(enumerate(content, address))

    def advance(self, number, success, context):
        self.counted.append((number, int(not success)))

    def send(self, header, payload, ready, announcement, urgent=False):
        self.frames.append((header, payload))
        return ready
