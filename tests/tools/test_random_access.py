"""RandomAccess: the official stream, and a run that counts its errors."""

import numpy as np
import pytest
from amoeba import Errno, FabricError, ProtectionError, open_cluster
from amoeba.transport.batches import Descriptors
from amoeba_model.parameters import NicParameters
from amoeba_tools.random_access import PERIOD, apply_stream, run_gups, starts, stream


def slow_stream(count):
    """The reference implementation's loop, number by number, from its start at 1."""
    value, numbers = 1, []
    for _ in range(count):
        value = (value * 2) % 2**64 ^ (7 if value >= 2**63 else 0)
        numbers.append(value)
    return numbers


@pytest.mark.parametrize(
    ("position", "number"),
    [
        (0, 0x1),
        (1, 0x2),
        (63, 0x8000_0000_0000_0000),
        (64, 0x7),  # x**64 = x**2 + x + 1
        (65, 0xE),
        (126, 0xC000_0000_0000_0007),  # x**62 * (x**2 + x + 1) = x**64 + x**63 + x**62
        (128, 0x15),  # squaring spreads the bits: x**4 + x**2 + 1
        (256, 0x111),
        (512, 0x10101),
        (1024, 0x1_0001_0001),
        (PERIOD, 0x1),
        (PERIOD + 64, 0x7),
    ],
)
def test_starts_gives_the_powers_of_x(position, number):
    assert starts(position) == number


def test_the_stream_is_that_of_the_reference_loop():
    assert stream(0, 5000).tolist() == slow_stream(5000)


@pytest.mark.parametrize("position", [0, 1, 63, 1000, 3999])
@pytest.mark.parametrize("count", [0, 1, 2, 1023, 1024, 1025])
def test_any_part_of_the_stream_can_be_had_by_itself(position, count):
    assert stream(position, count).tolist() == slow_stream(position + count)[position:]


def test_the_stream_goes_on_behind_its_period():
    assert stream(PERIOD - 3, 5).tolist()[2:] == [1, 2, 4]


def test_applying_the_stream_twice_restores_the_table():
    table = np.arange(64, dtype=np.uint64)
    expected = list(range(64))
    for number in slow_stream(256):
        expected[number % 64] ^= number
    apply_stream(table, 0, 256)
    assert table.tolist() == expected
    apply_stream(table, 0, 256)
    assert table.tolist() == list(range(64))


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("window", [1, 7, 64])
def test_the_benchmark_verifies(ranks, window):
    with open_cluster(["model"] * ranks) as fabric:
        counted = []
        result = run_gups(fabric, table_bits=6, window=window, progress=counted.append)
    assert result.passed
    assert result.errors == 0
    assert (result.table_words, result.updates, sum(counted)) == (64, 256, 256)
    assert result.cycles_per_update == result.cycles / 256
    # updates per second at 250 MHz, in units of a thousand million
    assert result.gups == pytest.approx(256 / (result.cycles * 4e-9) / 1e9)


def test_more_updates_in_flight_take_fewer_cycles():
    cycles = []
    for window in (1, 16):
        with open_cluster(["model", "model"]) as fabric:
            cycles.append(run_gups(fabric, table_bits=6, window=window).cycles)
    assert cycles[1] * 4 < cycles[0]


def test_equal_runs_take_equal_cycles():
    cycles = set()
    for _ in range(2):
        with open_cluster(["model", "model"]) as fabric:
            cycles.add(run_gups(fabric, table_bits=6).cycles)
    assert len(cycles) == 1


@pytest.mark.parametrize("options", [{"updates": 1}, {"updates": 1000, "position": 10**18}, {"updates": 65}])
def test_other_lengths_and_places_in_the_stream_verify_too(options):
    with open_cluster(["model"] * 3) as fabric:
        result = run_gups(fabric, table_bits=5, **options)
    assert result.passed
    assert result.updates == options["updates"]


def test_updates_that_go_wrong_are_counted(monkeypatch):
    write, written = Descriptors.write, []

    def sabotage(self, first, end, counter):
        block = write(self, first, end, counter)
        for descriptor in block:
            written.append(descriptor)
            if len(written) in (5, 8):  # the stream begins with the powers of 2: words 32 and 256
                descriptor["local"] ^= np.uint64(1 << 40)  # one wrong bit in one word
        return block

    monkeypatch.setattr(Descriptors, "write", sabotage)
    with open_cluster(["model", "model"]) as fabric:
        result = run_gups(fabric, table_bits=10)
    assert not result.passed
    assert result.errors == 2


def test_an_update_that_fails_ends_the_run(monkeypatch):
    write = Descriptors.write

    def sabotage(self, first, end, counter):
        block = write(self, first, end, counter)
        block["remote_key"] ^= 1
        return block

    monkeypatch.setattr(Descriptors, "write", sabotage)
    with open_cluster(["model", "model"]) as fabric, pytest.raises(ProtectionError, match="BAD_MKEY") as caught:
        run_gups(fabric, table_bits=6)
    assert caught.value.errno == Errno.FI_ENOKEY


@pytest.mark.parametrize(
    "options", [{"table_bits": 0}, {"window": 0}, {"window": 1025}, {"updates": 0}], ids=lambda o: next(iter(o))
)
def test_senseless_sizes_are_refused(options):
    with open_cluster(["model", "model"]) as fabric, pytest.raises(FabricError) as caught:
        run_gups(fabric, **options)
    assert caught.value.errno == Errno.FI_EINVAL


def test_a_small_nic_runs_random_access():
    parameters = NicParameters(data_width=128, contexts=1, keys=1, peers=2, window=4, payload=64)
    with open_cluster(["model", "model"], parameters) as fabric:
        assert run_gups(fabric, table_bits=6, window=32).passed
