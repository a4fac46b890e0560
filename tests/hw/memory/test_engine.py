"""The memory engine against a memory that performs the same requests one after the other.

Covers ``memory/admission.py``, ``memory/arithmetic.py``, ``memory/wide_arithmetic.py``, ``memory/delivery_gate.py``,
``memory/element_buffer.py``, ``memory/entry_records.py``, ``memory/executor.py``, ``memory/line_fetcher.py``,
``memory/line_store.py``, ``memory/line_table.py``, ``memory/line_use.py``, ``memory/result_packer.py``,
``memory/splitter.py``, ``memory/address_generators.py``, ``memory/write_back.py`` and ``amoeba_sim/memory_bench.py``.
"""

import dataclasses
import random
import struct
from functools import cache

import numpy as np
import pytest
from amoeba_hw.interfaces import MemoryKind
from amoeba_model.atomic import is_valid
from amoeba_model.atomic.formats import is_integer
from amoeba_model.nic.memory import atomic_beats
from amoeba_model.opcodes import Datatype, Form, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.trace import NO_CONTEXT
from amoeba_sim.memory_bench import MemoryBench, MemoryRequest, expected_results

pytestmark = pytest.mark.long

SIZE = 1 << 16
INTEGERS = (Datatype.FI_INT8, Datatype.FI_UINT16, Datatype.FI_INT32, Datatype.FI_UINT64)
ALL_INTEGERS = tuple(datatype for datatype in Datatype if is_integer(datatype))
STREAMS = ("request", "operand", "result", "read", "data", "write")


@cache
def bench(width, lines, datatypes=INTEGERS, single_cycle_products=True):
    return MemoryBench(
        NicParameters(data_width=width, lines=lines, datatypes=datatypes, single_cycle_products=single_cycle_products)
    )


def pipelined_bench():
    datatypes = (Datatype.FI_INT32, Datatype.FI_FLOAT, Datatype.FI_DOUBLE, Datatype.FI_FLOAT_COMPLEX)
    return bench(128, 8, (*datatypes, Datatype.FI_LONG_DOUBLE_COMPLEX))


def products_bench(single_cycle_products):
    return bench(128, 32, ALL_INTEGERS, single_cycle_products)


def run_and_compare(engine, requests, seed=1, size=SIZE, **settings):
    memory = np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)
    expected_memory = memory.copy()
    expected = expected_results(requests, expected_memory, engine.base)
    outcome = engine.run(requests, memory, seed=seed, **settings)
    for index, (payload, error, _) in enumerate(outcome.packets):
        told = f"seed {seed}, request {index}: {requests[index]}"
        assert not error, told
        assert payload == expected[index], f"{told}: got {payload.hex()}, expected {expected[index].hex()}"
    wrong = np.nonzero(memory != expected_memory)[0]
    assert not len(wrong), f"seed {seed}: memory differs at {wrong[:8]}"
    if "reset_at" not in settings:
        assert outcome.counts["atomic_beats"] == calculated_beats(engine, requests), f"seed {seed}"
    return outcome


def calculated_beats(engine, requests):
    return sum(
        atomic_beats(request.datatype, request.address, request.length, engine.parameters.beat_bytes)
        for request in requests
        if request.operand and request.kind is MemoryKind.ATOMIC
    )


def random_operands(r, datatype, count):
    size = datatype.size
    corners = (bytes(size), b"\xff" * size, bytes(size - 1) + b"\x80", b"\x01" + bytes(size - 1))
    return b"".join(r.choice(corners) if r.random() < 0.3 else r.randbytes(size) for _ in range(count))


def random_atomic(r, base, span, parameters, misaligned):
    datatype = r.choice(parameters.datatypes)
    op = r.choice([op for op in parameters.ops if any(is_valid(op, datatype, form) for form in Form)])
    address = base + r.randrange(span)
    if r.random() >= misaligned:
        address -= address % datatype.size
    count = r.choice((1, 1, 1, 2, 3, r.randrange(1, 40)))
    if op is Op.FI_ATOMIC_READ:
        return MemoryRequest.atomic(op, datatype, address, b"", count=count, fetch=True)
    compare = b"" if is_valid(op, datatype, Form.FETCH) else random_operands(r, datatype, count)
    return MemoryRequest.atomic(
        op, datatype, address, random_operands(r, datatype, count), compare,
        fetch=r.random() < 0.6, cswap_by_bits=r.random() < 0.3,
    )  # fmt: skip


def random_requests(r, engine, count, misaligned):
    """Reads, writes and atomics on a few hot lines or spread out, whole runs of which may be alike."""
    hot = r.choice((0, 16, 64, 128))
    requests = []
    while len(requests) < count:
        span = hot or r.choice((64, 256, 1024, 16384))
        address = engine.base + r.randrange(span)
        length = r.choice((0, 1, 2, 8, 16, 31, 32, 33, 64, 100, r.randrange(400)))
        kind = r.random()
        if kind < 0.2:
            request = MemoryRequest.read(address, length)
        elif kind < 0.4:
            request = MemoryRequest.write(address, r.randbytes(length))
        else:
            request = random_atomic(r, engine.base, span, engine.parameters, misaligned)
        requests += [request] * r.choice((1, 1, 1, 5))
    return requests


def random_settings(r):
    return {
        "latency": r.choice((0, 1, 3, 20, 250)),
        "chances": {name: r.choice((100, 100, 70, 30, 10)) for name in STREAMS},
    }


def check_random(engine, seeds, misaligned, count=300, contexts=(NO_CONTEXT,)):
    for seed in seeds:
        r = random.Random(seed)
        requests = random_requests(r, engine, count, misaligned)
        settings = random_settings(r)
        requests = [dataclasses.replace(request, context=r.choice(contexts)) for request in requests]
        run_and_compare(engine, requests, seed, **settings)


@pytest.mark.parametrize(("width", "lines"), [(128, 8), (256, 64), (512, 4)])
def test_random_requests_leave_the_memory_and_the_answers_of_a_serial_memory(width, lines):
    check_random(bench(width, lines), range(30), misaligned=0.2)


def test_a_line_that_several_contexts_use_is_one_memory():
    check_random(bench(128, 8), range(200, 220), misaligned=0.2, contexts=(0, 1, 7, NO_CONTEXT, NO_CONTEXT))


def test_misaligned_elements_are_atomic_among_other_requests():
    check_random(bench(128, 8), range(100, 120), misaligned=1)


def test_pipelined_operations_keep_the_order_on_every_byte():
    check_random(pipelined_bench(), range(40), misaligned=0.3)


@pytest.mark.parametrize("single_cycle_products", [True, False])
@pytest.mark.parametrize("misaligned", [0, 0.5])
def test_products_keep_the_order_on_every_byte(single_cycle_products, misaligned):
    engine = products_bench(single_cycle_products)
    for seed in range(300, 315):
        r = random.Random(seed)
        requests = random_requests(r, engine, 100, misaligned)
        for _ in range(200):
            datatype = r.choice(ALL_INTEGERS)
            address = r.randrange(128) if r.random() < misaligned else datatype.size * r.randrange(4)
            operand = random_operands(r, datatype, r.randrange(1, 6))
            product = MemoryRequest.atomic(
                Op.FI_PROD, datatype, engine.base + address, operand, fetch=r.random() < 0.6
            )
            requests.insert(r.randrange(len(requests)), product)
        run_and_compare(engine, requests, seed, **random_settings(r))


def test_elements_wider_than_a_beat_are_atomic_at_any_address():
    engine = pipelined_bench()
    for seed in range(200, 220):
        r = random.Random(seed)
        requests = random_requests(r, engine, 100, misaligned=0.3)
        for _ in range(100):
            op = r.choice([op for op in Op if op is not Op.FI_ATOMIC_READ and is_long_double_complex(op)])
            address = engine.base + r.choice((r.randrange(128), 16 * r.randrange(8)))
            operands = random_operands(r, Datatype.FI_LONG_DOUBLE_COMPLEX, r.randrange(1, 6))
            compares = random_operands(r, Datatype.FI_LONG_DOUBLE_COMPLEX, len(operands) // 32)
            compare = compares if is_valid(op, Datatype.FI_LONG_DOUBLE_COMPLEX, Form.COMPARE) else b""
            requests.insert(
                r.randrange(len(requests)),
                MemoryRequest.atomic(op, Datatype.FI_LONG_DOUBLE_COMPLEX, address, operands, compare, fetch=True),
            )
        run_and_compare(engine, requests, seed, **random_settings(r))


def is_long_double_complex(op):
    return any(is_valid(op, Datatype.FI_LONG_DOUBLE_COMPLEX, form) for form in Form)


def test_everything_begins_anew_after_a_reset_in_mid_traffic():
    engine = bench(128, 8)
    for seed in range(10):
        r = random.Random(seed)
        requests = random_requests(r, engine, 150, misaligned=0.2)
        run_and_compare(engine, requests, seed, reset_at=r.randrange(50, 800), **random_settings(r))


def sums(engine, addresses, datatype=Datatype.FI_UINT64, operand=bytes(7) + b"\x01", fetch=True):
    places = [engine.base + address for address in addresses]
    return [MemoryRequest.atomic(Op.FI_SUM, datatype, place, operand, fetch=fetch) for place in places]


def cycles_of(outcome):
    """From the first execution to the last, and from the first answer to the last."""
    ends = [cycle for _, _, cycle in outcome.packets]
    return outcome.executed[-1] - outcome.executed[0], ends[-1] - ends[0]


@pytest.mark.parametrize("fetch", [False, True])
def test_sums_on_one_address_run_at_one_per_cycle(fetch):
    outcome = run_and_compare(bench(256, 64), sums(bench(256, 64), [64] * 1000, fetch=fetch), latency=250)
    assert cycles_of(outcome) == (999, 999)
    assert outcome.counts["line_reads"] == 1
    assert outcome.counts["line_hits"] == 999
    assert outcome.counts["atomic_beats"] == 1000


@pytest.mark.parametrize("datatype", ALL_INTEGERS, ids=lambda datatype: datatype.name)
@pytest.mark.parametrize(
    ("single_cycle_products", "chain", "chain_of_128_bits"),
    [(True, 1, 1), (False, 10, 11)],
    ids=["lanes", "pipeline"],
)
def test_products_on_one_address_take_one_cycle_or_the_pipelines(
    datatype, single_cycle_products, chain, chain_of_128_bits
):
    engine = products_bench(single_cycle_products)
    three = (3).to_bytes(datatype.size, "little")
    # Whole beats, and one element that straddles no beat; each needs the result of the one before.
    for operand, address in ((three * (16 // datatype.size), 0), (three, 16 - datatype.size)):
        request = MemoryRequest.atomic(Op.FI_PROD, datatype, engine.base + 32 + address, operand, fetch=True)
        cycles = chain_of_128_bits if datatype.size == 16 else chain
        assert cycles_of(run_and_compare(engine, [request] * 300)) == (299 * cycles, 299 * cycles)


@pytest.mark.parametrize(("single_cycle_products", "of_128_bits"), [(True, 1), (False, 2)])
def test_products_on_independent_lines_take_one_cycle(single_cycle_products, of_128_bits):
    engine = products_bench(single_cycle_products)
    for datatype, cycles in ((Datatype.FI_INT64, 1), (Datatype.FI_UINT128, of_128_bits)):
        requests = [
            MemoryRequest.atomic(Op.FI_PROD, datatype, engine.base + 16 * line, bytes(range(1, 17)), fetch=True)
            for line in range(400)
        ]
        outcome = run_and_compare(engine, requests, latency=4)
        assert cycles_of(outcome) == (399 * cycles, 399 * cycles)


def test_64_independent_lines_are_in_flight():
    engine = bench(256, 64)
    outcome = run_and_compare(engine, sums(engine, range(0, 32 * 1000, 32)), latency=250)
    assert outcome.most_reads == 64
    assert outcome.counts["line_reads"] == outcome.counts["line_writes"] == 1000


def test_independent_lines_run_at_one_per_cycle_while_their_latency_is_covered():
    engine = bench(256, 64)
    outcome = run_and_compare(engine, sums(engine, range(0, 32 * 1000, 32)), latency=40)
    assert cycles_of(outcome) == (999, 999)


@pytest.mark.parametrize("offset", [0, 5])
def test_rma_moves_a_line_per_cycle_also_across_requests(offset):
    engine = bench(256, 64)
    starts = [engine.base + offset + 4096 * index for index in range(8)]
    lines = 8 * (128 + (offset > 0))
    writes = run_and_compare(engine, [MemoryRequest.write(start, bytes(range(256)) * 16) for start in starts])
    # The time between the first line of the first request and the last line of the last.
    assert writes.writes[-1][0] - writes.writes[0][0] <= lines - 1
    reads = run_and_compare(engine, [MemoryRequest.read(start, 4096) for start in starts], latency=40)
    first_of_all = reads.packets[0][2] - 127
    assert reads.packets[-1][2] - first_of_all <= lines - 1


LATENCY = 250
"""Of a host's memory, in cycles."""


def lines_per_cycle(outcome, lines):
    """Lines of every answer, over the cycles in which all but the first third leave."""
    ends = [cycle for *_, cycle in outcome.packets][len(outcome.packets) // 3 :]
    return lines * (len(ends) - 1) / (ends[-1] - ends[0])


@pytest.mark.parametrize("offset", [0, 1, 31])
def test_256_lines_cover_the_latency_of_the_host(offset):
    engine = bench(256, 256)
    starts = [engine.base + offset + 4096 * (index % 15) for index in range(24)]
    reads = [MemoryRequest.read(start, 4096) for start in starts]
    writes = [MemoryRequest.write(start, bytes(range(256)) * 16) for start in starts]
    for requests in (reads, writes):
        outcome = run_and_compare(engine, requests, latency=LATENCY)
        # Of lines touched: a request that begins in mid-line has one more than it has beats.
        assert lines_per_cycle(outcome, 128 + (offset > 0)) > 0.999


@pytest.mark.parametrize("stride", [32, 64, 256, 2048, 16384])
def test_lines_a_power_of_two_apart_do_not_wait_for_each_other(stride):
    engine = bench(256, 256)
    # More lines than are ever in flight, so that none is met again.
    requests = sums(engine, [n % 512 * stride for n in range(2000)])
    outcome = run_and_compare(engine, requests, size=512 * stride, latency=LATENCY)
    assert lines_per_cycle(outcome, 1) > 0.999


def test_nobody_can_choose_lines_that_wait_for_each_other():
    """The lines of one set, as lines were spread before the key: 31 cycles each."""
    engine = bench(256, 256)
    places = [32 * (part | part << 6) for part in range(64)]
    outcome = run_and_compare(engine, sums(engine, places * 8), size=32 << 12, latency=LATENCY)
    assert 1 / lines_per_cycle(outcome, 1) <= 8


@pytest.mark.parametrize(("lines", "in_flight"), [(64, 36), (256, 160)])
def test_random_lines_are_in_flight_together(lines, in_flight):
    engine = bench(256, lines)
    r = random.Random(1)
    places = [32 * r.randrange(SIZE // 32) for _ in range(4000)]
    requests = [MemoryRequest.read(engine.base + place, 32) for place in places]
    outcome = run_and_compare(engine, requests, latency=LATENCY)
    assert lines_per_cycle(outcome, 1) * LATENCY > in_flight


def test_a_chain_of_double_sums_takes_six_cycles_each_and_independent_ones_one():
    engine = pipelined_bench()
    half = struct.pack("<d", 0.5)
    chain = run_and_compare(engine, sums(engine, [64] * 200, Datatype.FI_DOUBLE, half))
    assert cycles_of(chain) == (6 * 199, 6 * 199)
    # Six addresses, also within one line.
    spread = run_and_compare(engine, sums(engine, [8 * (n % 6) for n in range(300)], Datatype.FI_DOUBLE, half))
    assert cycles_of(spread) == (299, 299)


def test_sums_of_elements_wider_than_a_beat_take_a_cycle_per_beat():
    engine = pipelined_bench()
    one = (0x3FFF << 64 | 1 << 63).to_bytes(16, "little")
    # Three elements in six lines, so that a line's turn comes again when its sum is through the pipeline.
    operand = (one + bytes(16)) * 3
    request = MemoryRequest.atomic(Op.FI_SUM, Datatype.FI_LONG_DOUBLE_COMPLEX, engine.base, operand, fetch=True)
    assert cycles_of(run_and_compare(engine, [request] * 100)) == (6 * 99, 6 * 99)


WIDE = Datatype.FI_LONG_DOUBLE_COMPLEX
WIDE_CYCLES = {
    Op.FI_PROD: (5, 29),
    Op.FI_LOR: (2, 5),
    Op.FI_LAND: (2, 5),
    Op.FI_LXOR: (2, 5),
    Op.FI_CSWAP: (2, 5),
    Op.FI_CSWAP_NE: (2, 5),
}
"""Operations that need both beats of an element at once: their cycles per element, and per element of a chain on one
address."""


def wide_requests(engine, op, addresses, elements=1):
    """The same request at each address, of numbers near one, so that none is a special case for long."""
    one = (0x3FFF << 64 | 1 << 63).to_bytes(16, "little")
    operand = (one + bytes(16)) * elements
    compare = operand if is_valid(op, WIDE, Form.COMPARE) else b""
    return [
        MemoryRequest.atomic(op, WIDE, engine.base + address, operand, compare, fetch=True) for address in addresses
    ]


@pytest.mark.parametrize(("op", "cycles"), [(op, cycles) for op, (cycles, _) in WIDE_CYCLES.items()])
def test_operations_on_whole_elements_of_two_beats_take_their_cycles_each(op, cycles):
    engine = bench(128, 64, (WIDE,))
    # One address after the other while the pipeline works, from lines that are there and from lines that are not.
    for start in (0, 16):
        hot = wide_requests(engine, op, [start + 32 * (n % 14) for n in range(300)])
        assert cycles_of(run_and_compare(engine, hot)) == (cycles * 299, cycles * 299)
        cold = wide_requests(engine, op, range(start, 32 * 1000, 32))
        assert cycles_of(run_and_compare(engine, cold)) == (cycles * 999, cycles * 999)
    vectors = wide_requests(engine, op, [0] * 10, elements=100)
    assert cycles_of(run_and_compare(engine, vectors)) == (100 * cycles * 9, 100 * cycles * 9)


@pytest.mark.parametrize(("op", "cycles"), [(op, cycles) for op, (_, cycles) in WIDE_CYCLES.items()])
def test_a_chain_of_elements_of_two_beats_takes_the_latency_of_their_arithmetic(op, cycles):
    engine = bench(128, 64, (WIDE,))
    chain = wide_requests(engine, op, [64] * 100)
    assert cycles_of(run_and_compare(engine, chain)) == (cycles * 99, cycles * 99)


@pytest.mark.parametrize(("op", "cycles"), [(Op.FI_PROD, 996), (Op.FI_SUM, 1360)], ids=["products", "sums"])
def test_products_of_two_beats_and_other_arithmetic_share_the_pipeline(op, cycles):
    """Every product of two beats has the input for four cycles and the adders for two.

    Another product passes in the cycle between two of them, so that both go on every 5 cycles; in that cycle the
    adders are taken, so that sums make a longer way of it, 6.8 cycles on average.
    """
    engine = bench(128, 64, (WIDE, Datatype.FI_DOUBLE))
    half = np.array([0.5, 0.25]).tobytes()
    requests = [
        request
        for n in range(200)
        for request in (
            *wide_requests(engine, Op.FI_PROD, [32 * (n % 14)]),
            MemoryRequest.atomic(op, Datatype.FI_DOUBLE, engine.base + 1024 + 16 * (n % 30), half, fetch=True),
        )
    ]
    assert cycles_of(run_and_compare(engine, requests))[0] == cycles


def test_an_answer_leaves_only_when_its_writes_were_accepted():
    engine = bench(256, 64)
    r = random.Random(5)
    addresses = r.sample(range(0, SIZE, 512), 60)
    requests = [MemoryRequest.write(engine.base + address, r.randbytes(200)) for address in addresses]
    outcome = run_and_compare(engine, requests, chances={"write": 30})
    for request, (_, _, answered) in zip(requests, outcome.packets, strict=True):
        accepted = {line: cycle for cycle, line in outcome.writes}
        assert max(accepted[line] for line in request.lines(32)) < answered
    blocked = run_and_compare(engine, [MemoryRequest.read(engine.base, 32), *requests[:3]], writes_blocked_until=700)
    ends = [cycle for _, _, cycle in blocked.packets]
    assert ends[0] < 100
    assert min(ends[1:]) > 700


def size_written_whole(request):
    """Bytes that change together or not at all."""
    parts_are_numbers = request.datatype is WIDE and request.op in (Op.FI_SUM, Op.FI_DIFF, Op.FI_ATOMIC_WRITE)
    return 16 if parts_are_numbers else request.datatype.size


@pytest.mark.parametrize("engine_of", [lambda: bench(128, 8), pipelined_bench], ids=["integers", "all widths"])
def test_refused_lines_make_errors_and_are_not_written(engine_of):
    engine = engine_of()
    base = engine.base
    refused = range(base + 1024, base + 1024 + 64)
    for seed in range(20):
        r = random.Random(seed)
        requests = [
            random_atomic(r, base + 960, 192, engine.parameters, misaligned=0.5)
            if r.random() < 0.7
            else MemoryRequest.read(base + 960 + r.randrange(192), r.randrange(100))
            for _ in range(200)
        ]
        memory = np.random.default_rng(seed).integers(0, 256, SIZE, dtype=np.uint8)
        expected = memory.copy()
        answers = []
        for request in requests:
            before = expected.copy()
            answers += expected_results([request], expected, base)
            for start in range(request.address, request.address + request.length, size_written_whole(request)):
                element = range(start, start + size_written_whole(request))
                lines = range(start // 16 * 16, element.stop, 16)
                if any(line in refused for line in lines):
                    expected[start - base : element.stop - base] = before[start - base : element.stop - base]
        outcome = engine.run(requests, memory, seed=seed, refused=(refused.start, refused.stop), **random_settings(r))
        for request, answer, (payload, error, _) in zip(requests, answers, outcome.packets, strict=True):
            assert error == any(line in refused for line in request.lines(16)), f"seed {seed}: {request}"
            assert error or payload == answer, f"seed {seed}: {request}"
        assert np.array_equal(memory, expected), f"seed {seed}"
        assert outcome.counts["atomic_beats"] == calculated_beats(engine, requests), f"seed {seed}"


def test_writes_do_not_read_and_reads_do_not_write():
    engine = bench(256, 64)
    writes = run_and_compare(engine, [MemoryRequest.write(engine.base + 7, bytes(1000))])
    assert (writes.counts["line_reads"], writes.counts["line_writes"]) == (0, 32)
    reads = run_and_compare(engine, [MemoryRequest.read(engine.base + 7, 1000)])
    assert (reads.counts["line_reads"], reads.counts["line_writes"]) == (32, 0)
