"""`amoeba.ucp` has every name, number, argument and field of UCP's C API: tests/data/ucp-1.12.json.

The rules by which C becomes Python (docs/ucp.md), as far as names tell them, are :func:`python_arguments` and
:func:`has_field_mask`.

Covers ``openucx/ucp/calls/arguments.py``.
"""

import dataclasses
import enum
import inspect
import json
import re
from pathlib import Path

import pytest
from amoeba import ucp

ROOT = Path(__file__).parents[4]
API = json.loads((ROOT / "tests" / "data" / "ucp-1.12.json").read_text())
SPECIFICATION = ROOT.parent / "shared" / "spec" / "ucp.h-api-text.txt"
"""The header's comments, in its order, declarations left out."""
COUNTS = {"functions": 93, "macros": 2, "enumerations": 36, "structures": 22, "deprecated": 18, "types": 34}
OUR_OWN = {"ucs_cpu_set_t", "ucs_sock_addr_t"}
"""Names in UCX's manner that are no part of the table."""
STATUS_POINTERS = {"ucs_status_ptr_t", "UCS_PTR_IS_ERR", "UCS_PTR_STATUS", "UCS_STATUS_PTR"}
"""A status in a pointer: here None, a request or an exception."""
NO_DECLARATIONS = STATUS_POINTERS | {"ucp_client_server", "ucp_hello_world", "ucp_request", "ucp_request_size"}
NO_DECLARATIONS |= {"ucp_atomic_fetch", "ucp_dt_make_config"}
"""Names in the text beside the API: examples, internals, a family of functions, and a misprint."""

CALLABLE = API["functions"] + API["macros"] + API["deprecated"]
HELPERS = API["helpers"]
ENUMERATIONS = API["enumerations"] + [each for each in API["types"] + HELPERS if each["kind"] == "enumeration"]
STRUCTURES = API["structures"] + [each for each in API["types"] + HELPERS if each["kind"] == "structure"]
TYPES = [each for each in API["types"] if each["kind"] not in ("enumeration", "structure")]


def each(rows):
    return pytest.mark.parametrize("row", rows, ids=[row["name"] for row in rows])


def python_arguments(function):
    """C's arguments without those through which it returns something: these are what Python returns."""
    return [argument["name"] for argument in function["arguments"] if argument["direction"] != "out"]


def has_field_mask(structure):
    return structure["fields"][0]["name"] in ("field_mask", "op_attr_mask")


def test_the_table_is_whole():
    assert {kind: len(API[kind]) for kind in COUNTS} == COUNTS
    names = [row["name"] for kind in (*COUNTS, "helpers") for row in API[kind]]
    assert len(names) == len(set(names))


@each(CALLABLE + [row for row in HELPERS if row["kind"] == "function"])
def test_a_function_has_its_inputs_in_c_s_order(row):
    assert row["name"] in ucp.__all__
    parameters = inspect.signature(getattr(ucp, row["name"])).parameters.values()
    positional = [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert [each.name for each in positional] == python_arguments(row)
    added = [each for each in parameters if each not in positional]
    assert all(each.kind is each.KEYWORD_ONLY and each.default is not each.empty for each in added)


@each(ENUMERATIONS)
def test_an_enumeration_has_c_s_members_and_numbers(row):
    assert row["name"] in ucp.__all__
    kind = getattr(ucp, row["name"])
    assert {name: int(member) for name, member in kind.__members__.items()} == row["members"]


@each(ENUMERATIONS)
def test_members_are_names_of_their_own(row):
    kind = getattr(ucp, row["name"])
    for name in row["members"]:
        assert name in ucp.__all__
        assert getattr(ucp, name) is kind[name]


@each(ENUMERATIONS)
def test_bits_combine_and_what_is_counted_does_not(row):
    """Counted values begin with 0."""
    base = enum.IntEnum if 0 in row["members"].values() else enum.IntFlag
    assert issubclass(getattr(ucp, row["name"]), base)


@each(STRUCTURES)
def test_a_structure_has_c_s_fields_in_c_s_order(row):
    assert row["name"] in ucp.__all__
    fields = dataclasses.fields(getattr(ucp, row["name"]))
    assert [each.name for each in fields] == [each["name"] for each in row["fields"]]


@each([row for row in STRUCTURES if has_field_mask(row)])
def test_a_structure_with_a_mask_is_empty_and_its_fields_are_named(row):
    fields = dataclasses.fields(getattr(ucp, row["name"]))
    assert all(each.default is None and each.kw_only for each in fields)


@each([row for row in STRUCTURES if has_field_mask(row)])
def test_every_field_has_its_bit_and_every_bit_its_field(row):
    """Of flags above them, and of the older names of the same bit, the table has no row."""
    bits = getattr(ucp, row["name"]).fields_by_bit()
    assert list(bits) == [each["name"] for each in row["fields"][1:]]
    covering = [
        {number for name, number in each["members"].items() if "_FIELD_" in name}
        for each in ENUMERATIONS
        if all(bit in each["members"].values() for bit in bits.values())
    ]
    assert set(bits.values()) in covering


@each(TYPES)
def test_a_type_is_there(row):
    assert row["name"] in ucp.__all__
    kind = getattr(ucp, row["name"])
    if row["kind"] == "number":
        assert kind is int
    elif row["kind"] == "alias":
        assert kind is getattr(ucp, row["of"])
    elif row["kind"] == "callback":
        arguments, _ = kind.__args__[:-1], kind.__args__[-1]
        assert len(arguments) == len(row["arguments"])
    else:
        assert isinstance(kind, type)


@each([row for row in HELPERS if row["kind"] == "constant"])
def test_a_constant_has_c_s_value(row):
    assert row["name"] in ucp.__all__
    assert getattr(ucp, row["name"]) == row["value"]


def test_statuses_have_c_s_words():
    [statuses] = [row for row in HELPERS if row["name"] == "ucs_status_t"]
    for name, words in statuses["strings"].items():
        assert ucp.ucs_status_string(statuses["members"][name]) == words


def test_no_name_looks_as_if_it_were_c_s():
    known = {row["name"] for kind in (*COUNTS, "helpers") for row in API[kind]}
    known |= {member for row in ENUMERATIONS for member in row["members"]}
    looking = {name for name in ucp.__all__ if re.match("(ucp|ucs|uct)_", name, re.IGNORECASE)}
    assert looking - known - OUR_OWN == set()


@each(CALLABLE)
def test_a_function_has_its_place_in_the_documentation(row):
    assert f"`{row['name']}`" in (ROOT / "docs" / "ucp.md").read_text()


def test_what_else_is_public_is_few():
    ours = {name for name in ucp.__all__ if not re.match("(ucp|ucs|uct)_", name, re.IGNORECASE)}
    assert {name for name in ours if not name.startswith("Ucs")} <= {
        "Adapter",
        "Adapters",
        "default_adapter",
        "open_adapters",
    }


def test_every_name_is_listed_once():
    assert len(ucp.__all__) == len(set(ucp.__all__))
    assert all(hasattr(ucp, name) for name in ucp.__all__)


# The specification's text


@pytest.fixture(scope="module")
def blocks():
    """(comment, what is left of the declaration behind it) of every block."""
    if not SPECIFICATION.exists():
        pytest.skip(f"{SPECIFICATION} is not here")
    parts = re.split(r"/\*\*(.*?)\*/", SPECIFICATION.read_text(), flags=re.DOTALL)[1:]
    return [(comment, " ".join(left.split())) for comment, left in zip(parts[::2], parts[1::2], strict=True)]


def in_order(kind):
    return sorted(API[kind], key=lambda row: row["line"])


def test_functions_are_the_specification_s(blocks):
    """Types of return, and names of arguments with what is an output, in the order of the header."""
    returning = re.compile(r"(?:static inline )?(ucs_status_t|ucs_status_ptr_t|void \*|void|unsigned|ssize_t|"
                           r"const char \*|ucp_tag_message_h) ?;?")  # fmt: skip
    found = [(comment, match[1]) for comment, left in blocks if (match := returning.fullmatch(left))]
    functions = in_order("functions")
    assert [returns for _, returns in found] == [row["returns"] for row in functions]
    for (comment, _), row in zip(found, functions, strict=True):
        documented = dict(reversed(each) for each in re.findall(r"@param +\[(\w+)\] +(\w+)", comment))
        if row["name"] == "ucp_init_version":
            assert documented == {}
            continue
        directions = {each["name"]: each["direction"] for each in row["arguments"]}
        assert documented.keys() == directions.keys()
        for name, direction in documented.items():
            if directions[name] == "inout":
                assert direction in ("out", "inout")
            elif (row["name"], name) != ("ucp_config_release", "config"):  # it frees what it is given
                assert direction == directions[name]


def test_enumerations_and_structures_are_the_specification_s(blocks):
    """Their number and order; the name wherever the text has one, and the group."""
    found = [
        (re.search(r"@ingroup UCP_(\w+)", comment)[1], left)
        for comment, left in blocks
        if left == ";" or left.startswith("typedef")
    ]
    rows = sorted(API["enumerations"] + API["structures"], key=lambda row: row["line"])
    assert len(found) == len(rows)
    for (_, left), row in zip(found, rows, strict=True):
        if left != ";":
            keyword = "enum" if "members" in row else "struct"
            assert re.fullmatch(rf"typedef {keyword} (\w+ )?{row['name']};", left)


def test_names_that_the_specification_mentions_are_in_the_table(blocks):
    text = "".join(comment for comment, _ in blocks)
    known = {row["name"] for kind in (*COUNTS, "helpers") for row in API[kind]}
    known |= {member for row in ENUMERATIONS for member in row["members"]}
    known |= {name.removesuffix("_t") for name in known}  # C's structures have a name without a type definition, too
    known |= set(re.findall(r"@(?:in|def)group (\w+)", text)) | NO_DECLARATIONS
    assert set(re.findall(r"\b(?:ucp|UCP|ucs|UCS)_\w*[A-Za-z0-9]\b", text)) - known == set()
