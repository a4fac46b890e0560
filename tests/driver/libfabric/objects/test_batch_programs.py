"""Random programs of batches and single operations, against NumPy."""

import numpy as np
import pytest
from amoeba import ErrorAvailableError, Op, OpFlags, TryAgainError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.driver.batching import KINDS, WORDS, opened

UFUNCS = {Op.FI_SUM: np.add, Op.FI_BXOR: np.bitwise_xor, Op.FI_MAX: np.maximum, Op.FI_BAND: np.bitwise_and}
OPS = st.sampled_from(list(UFUNCS))
INDICES = st.lists(st.tuples(st.integers(0, 1), st.integers(0, WORDS - 1)), min_size=1, max_size=90)
STEPS = st.tuples(
    st.sampled_from(["write", "read", "atomic", "fetch", "compare", "array", "one"]),
    INDICES,
    OPS,
    st.integers(0, 1 << 30),
    st.booleans(),
    st.sets(st.integers(0, 89), max_size=2),
)
PROGRAMS = st.lists(STEPS, min_size=1, max_size=8)


class Player:
    """Does what a program says, with the NICs and with NumPy."""

    def __init__(self, scene):
        self.scene = scene
        self.outstanding = {}
        """By context: (the numbers that are to fail, what is to be read, where it is read to)."""

    def play(self, program):
        for number, (what, places, op, seed, more, wrong) in enumerate(program):
            which, indices = np.array(places).T
            self.step(number, what, which, indices, op, np.random.default_rng(seed), more, wrong)
        self.settle()

    def step(self, number, what, which, indices, op, rng, more, wrong):
        scene = self.scene
        values = rng.integers(0, 1 << 40, len(indices), dtype=np.uint64)
        if what == "array":
            remote = scene.endpoint.array(scene.targets[0], scene.others[0], np.uint64, WORDS)
            remote.at(op, indices, values)
            UFUNCS[op].at(scene.expected[0], indices, values)
        elif what == "one":
            self.one(number, which[0], indices[0], op, values[:1])
        else:
            self.batch(number, what, which, indices, op, values, more, wrong)

    def batch(self, number, what, which, indices, op, values, more, wrong):
        scene = self.scene
        wrong = {each for each in wrong if each < len(indices)}
        peers, addresses, keys = np.array([scene.targets, scene.addresses, scene.keys], np.uint64)[:, which]
        keys[list(wrong)] ^= np.uint64(1)
        old, compare = np.zeros(len(indices), np.uint64), np.zeros(len(indices), np.uint64)
        told = np.zeros(len(indices), np.uint64)
        for at, (target, index, value) in enumerate(zip(which, indices, values, strict=True)):
            memory = scene.expected[target]
            if at not in wrong:
                told[at] = memory[index]
                compare[at] = memory[index] + np.uint64(value % 2)
                if what == "write" or (what == "compare" and not value % 2):
                    memory[index] = value
                elif what in ("atomic", "fetch"):
                    memory[index] = UFUNCS[op](memory[index], value)
        where, options = (peers, addresses + 8 * indices.astype(np.uint64), keys), {"context": number}
        options["flags"] = OpFlags.FI_MORE if more else OpFlags(0)
        endpoint = scene.endpoint
        if what == "write":
            posted = endpoint.write_batch(values, *where, **options)
        elif what == "read":
            posted = endpoint.read_batch(old, *where, **options)
        elif what == "atomic":
            posted = endpoint.atomic_batch(values, *where, op, **options)
        elif what == "fetch":
            posted = endpoint.fetch_atomic_batch(values, old, *where, op, **options)
        else:
            posted = endpoint.compare_atomic_batch(values, compare, old, *where, Op.FI_CSWAP, **options)
        assert posted == len(indices)
        reads = what in ("read", "fetch", "compare")
        self.outstanding[number] = wrong, told if reads else None, old

    def one(self, number, target, index, op, value):
        scene = self.scene
        to = (scene.targets[target], scene.addresses[target] + 8 * int(index), scene.keys[target])
        while True:
            try:
                scene.endpoint.atomic(value, *to, op, context=number)
                break
            except TryAgainError:
                self.read(1)
        scene.expected[target][index] = UFUNCS[op](scene.expected[target][index], value[0])
        self.outstanding[number] = set(), None, None

    def read(self, timeout):
        try:
            for entry in self.scene.queue.sread(99, timeout=timeout):
                self.over(entry.op_context, [])
        except ErrorAvailableError:
            entry = self.scene.queue.readerr()
            self.over(entry.op_context, entry.failures["index"].tolist())

    def over(self, number, failed):
        wrong, told, old = self.outstanding.pop(number)
        assert failed == sorted(wrong)
        if told is not None:
            np.testing.assert_array_equal(old, told)

    def settle(self):
        while self.outstanding:
            before = len(self.outstanding)
            self.read(30)
            assert len(self.outstanding) < before, f"nothing has ended in 30 s of {self.outstanding}"
        self.scene.check()
        assert self.scene.endpoint.tx_size_left == self.scene.endpoint.tx_size


@pytest.fixture(scope="module", params=KINDS)
def lasting(request):
    with opened(request.param, tx_size=32) as scene:
        yield scene, 60 if request.param == KINDS[0] else 15


def test_programs_do_what_numpy_does(lasting):
    scene, examples = lasting

    @settings(max_examples=examples, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(PROGRAMS)
    def check(program):
        Player(scene).play(program)

    check()
