# amaranth: UnusedElaboratable=no
"""The queues of requests against lists in Python: order, turns, FENCE_ALL, and that nothing is lost or forgotten.

The test plays the Packetizer: it takes what is on offer, and its turns end as chance has it; but what is not in order
never begins.

Covers ``initiator/context_order.py`` and ``initiator/queue_arbiter.py``.
"""

import random
from collections import Counter, deque

import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator
from amoeba_hw.initiator.records import REQUEST, Obstacle
from amoeba_hw.initiator.request_queues import RequestQueues
from amoeba_sim.payload import pack, unpack

WITHDRAWN = 3
"""Cycles until a place that was released may be taken."""


class Queued:
    """A request, and what came before it in its context."""

    def __init__(self, request, older):
        self.request = request
        self.older = older
        self.context = request["ticket"]["context"]
        self.fence_all = bool(request["fence_all"])
        self.begun = self.left = False


class Bench:
    """One set of queues and what ought to be in them."""

    def __init__(self, contexts, peers, depth, seed, fences=0.1, patience=0.7):
        self.rng = random.Random(seed)
        self.sizes = self.contexts, self.peers, self.depth = contexts, peers, depth
        self.fences = fences
        """Share of requests with FENCE_ALL."""
        self.patience = patience
        """Share of turns in which a packet leaves."""
        self.reset = Signal()
        self.queues_of_hardware = RequestQueues(contexts, peers, depth)
        self.seen = Counter()
        self.forget()

    def forget(self):
        self.queues = [deque() for _ in range(self.peers + self.contexts)]
        self.obstacles = [None] * len(self.queues)
        self.came = [[] for _ in range(self.contexts)]
        self.places = [self.depth] * self.contexts
        self.returning = deque()
        self.generations = 0
        self.space = self.answered = (1 << self.peers) - 1
        self.quiet = (1 << self.contexts) - 1
        self.taken = None
        self.age = 0
        self.idle = 0
        """Cycles without a turn, though a queue might go on."""

    def queue_of(self, queued):
        request = queued.request
        if request["is_nop"] and not request["fence"]:
            return self.peers + queued.context
        return request["ticket"]["peer"]

    def in_order(self, queued):
        if queued.fence_all:
            return all(other.left for other in queued.older) and bool(self.quiet >> queued.context & 1)
        return all(other.begun for other in queued.older if other.fence_all)

    def may_go_on(self, number):
        """Whether the queue is to have a turn sooner or later."""
        obstacle = self.obstacles[number]
        if not self.queues[number]:
            return False
        if obstacle == Obstacle.ORDER:
            return self.in_order(self.queues[number][0])
        waits = {Obstacle.WINDOW: self.space, Obstacle.FENCE: self.answered}
        return obstacle is None or bool(waits[obstacle] >> number & 1)

    def random_request(self, context):
        rng = self.rng
        nop = rng.random() < 0.15
        fence = nop and rng.random() < 0.5
        fence_all = rng.random() < self.fences or (nop and not fence)
        request = unpack(REQUEST, rng.getrandbits(REQUEST.size))
        request["ticket"]["context"] = context
        # A peer entry belongs to one context; who has none names nobody.
        own = range(context, self.peers, self.contexts)
        request["ticket"]["peer"] = 0xFFFF if nop and not fence else rng.choice(own)
        return request | {"is_nop": int(nop), "fence": int(fence), "fence_all": int(fence_all)}

    async def run(self, ctx, cycles, fill):
        """Cycles in which a request comes with probability ``fill``, if its context has a place."""
        for _ in range(cycles):
            await self._cycle(ctx, fill)

    async def drain(self, ctx):
        """All obstacles go; nothing may stay."""
        self.space = self.answered = (1 << self.peers) - 1
        self.quiet = (1 << self.contexts) - 1
        self.patience = 1.0
        for _ in range(20 * self.contexts * self.depth):
            await self._cycle(ctx, 0)
        assert not any(self.queues), [len(queue) for queue in self.queues]

    async def _cycle(self, ctx, fill):
        dut = self.queues_of_hardware
        for _ in range(len(self.returning)):
            wait, context = self.returning.popleft()
            if wait:
                self.returning.append((wait - 1, context))
            else:
                self.places[context] += 1
        pushed = self._push(ctx, fill)
        verdict = self._judge(ctx)
        ctx.set(dut.stays, verdict == "stays")
        ctx.set(dut.pop, verdict == "pop")
        ctx.set(dut.fails, isinstance(verdict, Obstacle))
        ctx.set(dut.obstacle, verdict if isinstance(verdict, Obstacle) else 0)
        ctx.set(dut.passes, verdict in ("stays", "pop") and not self.queues[self.taken][0].begun)
        ctx.set(dut.generations, self.generations)
        ctx.set(dut.may_send, self.space)
        ctx.set(dut.all_answered, self.answered)
        ctx.set(dut.context_answered, self.quiet)
        offered = self.taken is None and ctx.get(dut.offered)
        taken = ctx.get(dut.queue) if offered else None
        ctx.set(dut.take, offered)
        self._check(ctx, verdict)
        await ctx.tick()
        self._settle(verdict, pushed, taken)
        if self.rng.random() < 0.1 and self.patience < 1:
            self.space = self.rng.getrandbits(self.peers)
            self.answered = self.rng.getrandbits(self.peers)
            self.quiet = self.rng.getrandbits(self.contexts)

    def _push(self, ctx, fill):
        dut, context = self.queues_of_hardware, self.rng.randrange(self.contexts)
        pushed = None
        if self.places[context] and self.rng.random() < fill:
            pushed = Queued(self.random_request(context), list(self.came[context]))
            ctx.set(dut.i.payload.as_value(), pack(REQUEST, pushed.request))
            self.places[context] -= 1
            self.seen["full"] += not self.places[context]
        ctx.set(dut.i.valid, pushed is not None)
        return pushed

    def _judge(self, ctx):
        """How the current turn ends; None if it goes on."""
        if self.taken is None or (self.age and self.rng.random() < 0.1):
            return None
        queued = self.queues[self.taken][0]
        if not (queued.begun or self.in_order(queued)):
            return Obstacle.ORDER
        if self.taken < self.peers and self.rng.random() > self.patience:
            obstacle = self.rng.choice([Obstacle.WINDOW, Obstacle.FENCE])
            waits = self.space if obstacle == Obstacle.WINDOW else self.answered
            # Who knows that it does not have to wait does not say so.
            return None if waits >> self.taken & 1 else obstacle
        return "stays" if self.rng.random() < 0.3 and not queued.request["is_nop"] else "pop"

    def _check(self, ctx, verdict):
        dut = self.queues_of_hardware
        assert ctx.get(dut.i.ready)
        left = 0
        if self.taken is not None:
            queued = self.queues[self.taken][0]
            assert unpack(REQUEST, ctx.get(dut.request.as_value())) == queued.request
            assert queued.begun or bool(ctx.get(dut.in_order)) == self.in_order(queued)
            left = (verdict == "pop") << queued.context
        assert ctx.get(dut.left) == left

    def _settle(self, verdict, pushed, taken):
        """The state of the queues in the next cycle."""
        waits = self.taken is None and taken is None and any(map(self.may_go_on, range(len(self.queues))))
        # It is found, appended, and offered.
        self.idle = self.idle + 1 if waits else 0
        assert self.idle <= 6, f"nobody has a turn: {self.obstacles}"
        if verdict is not None:
            queue = self.queues[self.taken]
            queued = queue[0]
            self.seen[verdict] += 1
            self.obstacles[self.taken] = verdict if isinstance(verdict, Obstacle) else None
            queued.begun |= verdict in ("stays", "pop")
            if verdict == "pop":
                queue.popleft()
                queued.left = True
                self.came[queued.context] = [other for other in self.came[queued.context] if not other.left]
                self.returning.append((WITHDRAWN - 1, queued.context))
            self.taken = None
        self.age += 1
        if taken is not None:
            assert self.queues[taken], f"queue {taken} is empty"
            self.taken, self.age = taken, 0
            self.seen["turn", taken] += 1
        if pushed is not None:
            self.queues[self.queue_of(pushed)].append(pushed)
            self.came[pushed.context].append(pushed)


def simulate(bench, test):
    simulator = Simulator(ResetInserter(bench.reset)(bench.queues_of_hardware))
    simulator.add_clock(1e-6)
    simulator.add_testbench(test)
    simulator.run()


@pytest.mark.parametrize(("contexts", "peers", "depth"), [(1, 1, 2), (1, 4, 8), (3, 8, 8)])
@pytest.mark.parametrize("fill", [0.1, 0.5])
def test_requests_leave_in_the_order_of_their_peer_and_none_is_lost(contexts, peers, depth, fill):
    bench = Bench(contexts, peers, depth, seed=f"{contexts} {peers} {fill}")

    async def run(ctx):
        for _ in range(4):
            bench.patience = 0.6
            await bench.run(ctx, 500, fill)
            await bench.drain(ctx)

    simulate(bench, run)
    assert bench.seen["pop"] > 100
    assert min(bench.seen[name] for name in ("stays", *Obstacle)) > 10
    assert bench.seen["full"] > 5 or fill < 0.5


def test_every_fence_of_all_is_waited_for_and_waits():
    bench = Bench(2, 6, 16, seed=7, fences=0.5)

    async def run(ctx):
        for _ in range(6):
            bench.patience = 0.8
            await bench.run(ctx, 400, 0.5)
            await bench.drain(ctx)

    simulate(bench, run)
    assert bench.seen[Obstacle.ORDER] > 200


def test_a_blocked_queue_costs_others_of_its_context_a_turn_once():
    bench = Bench(1, 4, 16, seed=1, fences=0)
    order = []

    async def run(ctx):
        dut = bench.queues_of_hardware
        bench.space = 0b1110
        ctx.set(dut.may_send, bench.space)
        request = dict(unpack(REQUEST, 0))
        for index in range(16):
            peer = index % 4
            ctx.set(dut.i.payload.as_value(), pack(REQUEST, request | {"ticket": request["ticket"] | {"peer": peer}}))
            ctx.set(dut.i.valid, 1)
            await ctx.tick()
        ctx.set(dut.i.valid, 0)
        for cycle in range(80):
            if cycle == 60:
                ctx.set(dut.may_send, 0b1111)
            offered = ctx.get(dut.offered)
            queue = ctx.get(dut.queue)
            ctx.set(dut.take, offered)
            await ctx.tick()
            ctx.set(dut.take, 0)
            if offered:
                order.append(queue)
                blocked = queue == 0 and cycle < 60
                ctx.set(dut.fails, blocked)
                ctx.set(dut.pop, not blocked)
                await ctx.tick()
                ctx.set(dut.fails, 0)
                ctx.set(dut.pop, 0)

    simulate(bench, run)
    assert order == [0, 1, 2, 3] + [1, 2, 3] * 3 + [0] * 4


def test_a_new_generation_lets_every_queue_of_its_context_be_looked_at_again():
    bench = Bench(2, 4, 8, seed=3, fences=0)
    turns = []

    async def run(ctx):
        dut = bench.queues_of_hardware
        request = dict(unpack(REQUEST, 0))
        for peer in range(4):
            ticket = request["ticket"] | {"context": peer % 2, "peer": peer}
            ctx.set(dut.i.payload.as_value(), pack(REQUEST, request | {"ticket": ticket}))
            ctx.set(dut.i.valid, 1)
            await ctx.tick()
        ctx.set(dut.i.valid, 0)
        for cycle in range(80):
            ctx.set(dut.generations, 0b10 if cycle >= 40 else 0)
            offered = ctx.get(dut.offered)
            if offered:
                turns.append((cycle >= 40, ctx.get(dut.queue)))
            ctx.set(dut.take, offered)
            await ctx.tick()
            ctx.set(dut.take, 0)
            if offered:
                ctx.set(dut.fails, 1)
                await ctx.tick()
                ctx.set(dut.fails, 0)

    simulate(bench, run)
    assert sorted(turns) == [(False, 0), (False, 1), (False, 2), (False, 3), (True, 1), (True, 3)]


def test_a_reset_empties_all_queues():
    bench = Bench(3, 8, 8, seed=9)

    async def run(ctx):
        for _ in range(8):
            bench.patience = 0.7
            await bench.run(ctx, bench.rng.randint(1, 80), 0.9)
            for pulse in ("stays", "pop", "fails", "take", "passes"):
                ctx.set(getattr(bench.queues_of_hardware, pulse), 0)
            ctx.set(bench.queues_of_hardware.i.valid, 0)
            ctx.set(bench.reset, 1)
            await ctx.tick()
            ctx.set(bench.reset, 0)
            bench.forget()
        await bench.drain(ctx)
        assert not bench.seen["turn", None]

    simulate(bench, run)
