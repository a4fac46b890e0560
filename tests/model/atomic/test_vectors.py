"""The model against what libfabric 1.17 was recorded to do, and the comparison against wrong results."""

from pathlib import Path

import numpy as np
import pytest
from amoeba_model.atomic import Cell, cells
from amoeba_model.atomic.vectors import check, compare, execute_model, load
from amoeba_model.opcodes import Datatype, Form, Op

TESTS = Path(__file__).parents[2]
SOCKETS = TESTS / "data" / "libfabric-1.17-sockets.npz"
WIDE_TYPES = TESTS.parents[1] / "shared" / "vectors" / "libfabric-1.17-wide-types.npz"

needs_wide_types = pytest.mark.skipif(not WIDE_TYPES.exists(), reason="the wide-types recording is not here")


@pytest.fixture(scope="module")
def sockets():
    return {recorded.cell: recorded for recorded in load(SOCKETS)}


def test_the_model_does_what_the_sockets_provider_did(sockets):
    results = [check(recorded) for recorded in sockets.values()]
    assert len(results) == 361
    assert sum(result.vectors for result in results) == 251_136
    assert [str(example) for result in results for example in result.examples] == []
    assert sum(result.mismatches for result in results) == 0


@needs_wide_types
def test_the_model_does_what_libfabric_did_with_wide_types():
    results = [check(recorded) for recorded in load(WIDE_TYPES)]
    assert len(results) == 56
    assert [str(example) for result in results for example in result.examples] == []
    assert sum(result.mismatches for result in results) == 0


@needs_wide_types
def test_the_two_recordings_cover_the_manual_page():
    recorded = {recording.cell for path in (SOCKETS, WIDE_TYPES) for recording in load(path)}
    assert recorded == set(cells())


@needs_wide_types
def test_a_recording_tells_how_its_cswap_compared():
    floats = {Datatype.FI_FLOAT, Datatype.FI_DOUBLE, Datatype.FI_FLOAT_COMPLEX}
    by_bits = {recorded.cell for recorded in load(SOCKETS) if recorded.cswap_by_bits}
    assert by_bits == {Cell(Form.COMPARE, Op.FI_CSWAP, datatype) for datatype in floats}
    assert not any(recorded.cswap_by_bits for recorded in load(WIDE_TYPES))


@pytest.mark.parametrize("field", ["after", "fetched"])
def test_a_single_wrong_bit_is_found_and_shown(sockets, field):
    recorded = sockets[Cell(Form.FETCH, Op.FI_SUM, Datatype.FI_INT64)]

    def executor(cell):
        after, fetched = (memory.copy() for memory in execute_model(cell))
        {"after": after, "fetched": fetched}[field][17, 3] ^= 0x10
        return after, fetched

    result = check(recorded, executor)
    assert (result.mismatches, len(result.examples)) == (1, 1)
    example = result.examples[0]
    assert example.row == 17
    assert example.target == recorded.target[17].tobytes()
    assert f"expected_after {recorded.after[17].tobytes()[::-1].hex()}" in str(example)


def test_only_the_first_few_mismatches_are_kept(sockets):
    recorded = sockets[Cell(Form.BASE, Op.FI_BXOR, Datatype.FI_UINT8)]
    result = check(recorded, lambda cell: (~cell.after, None))
    assert result.mismatches == result.vectors == len(recorded)
    assert [example.row for example in result.examples] == [0, 1, 2]


def test_which_nan_matters_for_real_sums_and_not_for_complex_ones(sockets):
    for datatype, matters in ((Datatype.FI_FLOAT, True), (Datatype.FI_FLOAT_COMPLEX, False)):
        recorded = sockets[Cell(Form.BASE, Op.FI_SUM, datatype)]
        after = recorded.after.copy()
        values = after.view("<f4")
        nan = np.isnan(values)
        assert nan.any()
        after.view("<u4")[nan] ^= 1 << 31
        assert compare(recorded, after, None).any() == matters
    values[:] = np.where(nan, 0.0, values)
    np.testing.assert_array_equal(compare(recorded, after, None), nan.any(axis=1))
    # An executor that answers NaN to everything is wrong wherever libfabric did not.
    values[:] = np.nan
    np.testing.assert_array_equal(compare(recorded, after, None), ~nan.all(axis=1))


def test_fetched_values_are_compared_to_the_bit_even_where_complex(sockets):
    recorded = sockets[Cell(Form.FETCH, Op.FI_SUM, Datatype.FI_FLOAT_COMPLEX)]
    fetched = recorded.target.copy()
    nan = np.isnan(fetched.view("<f4"))
    fetched.view("<u4")[nan] ^= 1
    np.testing.assert_array_equal(compare(recorded, recorded.after, fetched), nan.any(axis=1))


@needs_wide_types
def test_padding_of_long_double_is_not_compared():
    recorded = next(r for r in load(WIDE_TYPES) if str(r.cell) == "fetch/FI_SUM/FI_LONG_DOUBLE_COMPLEX")
    after = recorded.after.copy()
    after.reshape(-1, 16)[:, 10:] ^= 0xFF
    assert not compare(recorded, after, recorded.fetched).any()
    after[3, 25] ^= 1
    assert compare(recorded, after, recorded.fetched).nonzero()[0].tolist() == [3]


def test_a_missing_or_misshapen_result_is_an_error(sockets):
    recorded = sockets[Cell(Form.FETCH, Op.FI_SUM, Datatype.FI_INT64)]
    with pytest.raises(ValueError, match="fetch/FI_SUM/FI_INT64: expected fetched memory, got None"):
        compare(recorded, recorded.after, None)
    with pytest.raises(ValueError, match=r"after: expected shape .*, got \(5, 8\)"):
        compare(recorded, recorded.after[:5], recorded.fetched)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("base/FI_SUM/FI_INT9/target", "expected a key form/OPERATION/DATATYPE/field"),
        ("base/FI_SUM/target", "expected a key form/OPERATION/DATATYPE/field"),
        ("base/FI_BOR/FI_FLOAT/target", "expected a field of a cell of the atomic matrix"),
        ("base/FI_SUM/FI_INT32/before", "expected a field of a cell of the atomic matrix"),
        ("base/FI_SUM/FI_INT32/target", "expected the fields target and after, got no after"),
        ("base/FI_SUM/FI_INT64/target", r"expected uint8\[2, 8\], got uint8\(2, 4\)"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(tmp_path, key, message):
    arrays = {key: np.zeros((2, 4), np.uint8)}
    if "INT64" in key:
        arrays["base/FI_SUM/FI_INT64/after"] = np.zeros((2, 8), np.uint8)
    np.savez(tmp_path / "broken.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        list(load(tmp_path / "broken.npz"))


def damaged(whole):
    """Return copies that are cut off, and copies in which a bit of a byte is flipped."""
    yield from (whole[:length] for length in range(len(whole)))
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        yield bytes(flipped)


def test_a_damaged_file_is_refused_or_has_the_same_cells(tmp_path):
    path = tmp_path / "recording.npz"
    rows = {"target": [[1], [255]], "operand": [[2], [1]], "after": [[3], [0]]}
    arrays = {f"fetch/FI_SUM/FI_UINT8/{field}": np.array(row, np.uint8) for field, row in rows.items()}
    np.savez_compressed(path, **arrays)
    whole, refused = path.read_bytes(), 0
    for data in damaged(whole):
        path.write_bytes(data)
        try:
            cells_found = list(load(path))
        except ValueError:
            refused += 1
        else:
            assert all(str(recorded.cell) == "fetch/FI_SUM/FI_UINT8" for recorded in cells_found)
    assert refused > len(whole)


def test_another_format_is_refused(tmp_path):
    np.save(tmp_path / "array.npy", np.zeros(3))
    with pytest.raises(ValueError, match="expected an npz file"):
        list(load(tmp_path / "array.npy"))
