"""Testbench of RequestQueues against a queue in Python for each context. Parameters: ``contexts``, ``depth``."""

import random
from collections import deque

import cocotb
from amoeba_hw.initiator.records import HEAD, REQUEST
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import reset, start
from amoeba_sim.payload import pack, unpack
from cocotb.triggers import RisingEdge

CONTEXTS = bench_parameters()["contexts"]
DEPTH = bench_parameters()["depth"]
SUMMARY = ("generation", "peer")


def random_request(number):
    request = unpack(REQUEST, random.getrandbits(REQUEST.size))
    request["ticket"]["context"] = number
    return request


class Bench:
    """Pushes and pops at random; the queues must say and deliver what is in them."""

    def __init__(self, dut, fill):
        self.dut = dut
        self.fill = fill
        """Probability that a cycle brings a request, if a queue has room."""
        self.queues = [deque() for _ in range(CONTEXTS)]
        self.popped = 0
        self.full = 0
        self.unknown = [0] * CONTEXTS
        self._looked_at = self._push = None
        """What the cycle under way reads, and (context, request) that it brings."""
        self._pops = False
        self._drive()

    def _heads(self):
        heads = [unpack(HEAD, int(getattr(self.dut, f"heads__{number}").value)) for number in range(CONTEXTS)]
        for number, (head, queue) in enumerate(zip(heads, self.queues, strict=True)):
            assert bool(head["present"]) == bool(queue), number
            self.unknown[number] = self.unknown[number] + 1 if queue and not head["known"] else 0
            assert self.unknown[number] <= 1
            if head["known"]:
                request = queue[0]
                assert {name: head[name] for name in SUMMARY} == {name: request["ticket"][name] for name in SUMMARY}
                assert bool(head["barrier"]) == bool(request["fence"] | request["is_close"])
                assert (head["barrier_all"], head["is_nop"]) == (request["fence_all"], request["is_nop"])
        return heads

    def _drive(self):
        self.dut.pop.value = self._pops
        self.dut.i__valid.value = self._push is not None
        request = pack(REQUEST, self._push[1]) if self._push else random.getrandbits(REQUEST.size)
        self.dut.i__payload.value = request
        if CONTEXTS > 1:
            self.dut.head_context.value = self._looked_at or 0

    def _choose(self, known):
        # A pop follows a look at the same context in the cycle before, as the Packetizer's does.
        self._pops = not self._pops and self._looked_at in known and random.random() < 0.7
        if not self._pops:
            self._looked_at = random.randrange(CONTEXTS)
        leaves = {self._looked_at} if self._pops else set()
        room = [number for number, queue in enumerate(self.queues) if len(queue) - (number in leaves) < DEPTH]
        self.full += len(room) < CONTEXTS
        self._push = None
        if room and random.random() < self.fill:
            number = random.choice(room)
            self._push = (number, random_request(number))

    async def run(self, cycles):
        dut = self.dut
        for _ in range(cycles):
            await RisingEdge(dut.clk)
            known = [number for number, head in enumerate(self._heads()) if head["known"]]
            assert dut.i__ready.value
            assert int(dut.left.value) == (1 << self._looked_at if self._pops else 0)
            if self._pops:
                assert unpack(REQUEST, int(dut.request.value)) == self.queues[self._looked_at].popleft()
                self.popped += 1
            if self._push:
                self.queues[self._push[0]].append(self._push[1])
            self._choose(known)
            self._drive()

    async def forget(self):
        """Reset, with everything that is inside."""
        self._looked_at = self._push = None
        self._pops = False
        self._drive()
        await reset(self.dut)
        for queue in self.queues:
            queue.clear()


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(fill=[0.1, 0.4, 0.9])
async def requests_leave_their_queues_in_order_and_heads_say_what_comes(dut, fill):
    bench = Bench(dut, fill)
    await start(dut)
    await bench.run(1500)
    assert bench.popped > 100
    assert bench.full > 20 or fill < 0.9


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_reset_empties_all_queues(dut):
    bench = Bench(dut, 0.9)
    await start(dut)
    for _ in range(10):
        await bench.run(random.randint(1, 60))
        await bench.forget()
    await bench.run(200)
