"""The declarations of UCX's functions and structures equal UCX 1.12.1 and Debian's headers, to the byte."""

import json
import re
import subprocess
from operator import attrgetter
from pathlib import Path

import pytest
from amoeba.openucx.libucp.layouts import LATER_TYPES, TYPES
from amoeba.openucx.libucp.library import IN_C, LATER, LIBRARY

from tests.support.programs.missing import MissingError, program

cffi = pytest.importorskip("cffi")
API = json.loads((Path(__file__).parents[3] / "data" / "ucp-1.12.json").read_text())
FUNCTIONS = {row["name"]: row for row in API["functions"] + API["deprecated"] if row["name"] != "ucp_init"}
"""ucp_init() is inline, and no symbol."""
SMALL = {
    "int": {"int", "ucp_atomic_op_t", "ucp_atomic_fetch_op_t", "ucp_atomic_post_op_t", "ucs_config_print_flags_t"},
    "unsigned": {"unsigned", "unsigned int"},
    "uint16_t": {"uint16_t"},
    "uint32_t": {"uint32_t"},
    "size_t": {"size_t"},
    "uint64_t": {"uint64_t", "ucp_tag_t", "ucp_datatype_t"},
}
"""Our types by C's types; everything else is a pointer."""
GROWN = {"ucp_request_param_t", "ucp_ep_params_t"}
"""Structures of which 1.13 has a field more."""
RETURNS = {
    "ucs_status_ptr_t": "uintptr_t", "void *": "uintptr_t", "ucp_tag_message_h": "uintptr_t",
    "ucs_status_t": "ucs_status_t", "void": "void", "int": "int", "unsigned": "unsigned", "ssize_t": "ssize_t",
}  # fmt: skip


LATER_NAMES = {"ucp_memh_pack", "ucp_memh_buffer_release", "ucp_rkey_compare", "ucp_dt_query"}
"""The additional functions in ucp.h of v1.19.0, by comparison of the two files."""
LATER_SIZES = {
    "ucp_memh_pack_params_t": 16,
    "ucp_memh_buffer_release_params_t": 8,
    "ucp_rkey_compare_params_t": 8,
    "ucp_datatype_attr_t": 32,
}


def kind_of(declared):
    """Of which size and class a parameter is, as we declare it."""
    return "pointer" if "*" in declared or declared in ("uintptr_t",) or declared.endswith("callback_t") else declared


def test_all_functions_are_there():
    declared = {each.name for each in LIBRARY.functions}
    assert declared | set(IN_C) == set(FUNCTIONS) | LATER_NAMES
    assert (len(FUNCTIONS), len(LATER_NAMES)) == (110, 4)


@pytest.mark.parametrize(
    "function", [each for each in LIBRARY.functions if each.name in FUNCTIONS], ids=attrgetter("name")
)
def test_a_function_has_ucx_s_arguments(function):
    row = FUNCTIONS[function.name]
    assert function.returns == RETURNS[row["returns"]]
    ours = [re.sub(r"\s*\w+$", "", each.strip()) for each in function.parameters.split(",")]
    assert len(ours) == len(row["arguments"])
    for our_type, argument in zip(ours, row["arguments"], strict=True):
        kind = kind_of(our_type)
        if kind == "pointer":
            assert all(argument["type"] not in each for each in SMALL.values()), argument
        else:
            assert argument["type"] in SMALL[kind], (our_type, argument)


def test_exactly_these_are_exported(libucp_environment):
    try:
        nm = program("nm", "binutils")
    except MissingError as missing:
        pytest.skip(str(missing))
    path = Path(libucp_environment["LD_LIBRARY_PATH"]) / "libucp.so.0"
    listed = subprocess.run([nm, "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    ours = {line.split()[2] for line in listed.splitlines()}
    assert {each for each in ours if each.startswith(("ucp_", "ucs_", "uct_"))} == set(FUNCTIONS) | LATER_NAMES


def declared():
    ffi = cffi.FFI()
    ffi.cdef("struct sockaddr_storage { unsigned long bytes[16]; };")
    ffi.cdef(TYPES)
    for name in re.findall(r"\} (ucp_\w+_t|ucs_\w+_t);", TYPES):
        yield name, ffi.sizeof(name), {field: detail.offset for field, detail in ffi.typeof(name).fields}


def test_structures_of_later_releases_have_their_sizes():
    ffi = cffi.FFI()
    ffi.cdef(LATER_TYPES)
    assert {name: ffi.sizeof(name) for name in LATER_SIZES} == LATER_SIZES
    assert {each.name for each in LATER} == LATER_NAMES


def test_structures_have_their_places(ucx_compiler, tmp_path):
    expected = {}
    for name, size, fields in declared():
        if name not in GROWN:
            expected[f"sizeof({name})"] = size
        for field, offset in fields.items():
            expected[f"offsetof({name}, {field})"] = offset
    assert len(expected) > 140
    lines = "\n".join(f'    printf("%zu\\n", (size_t)({expression}));' for expression in expected)
    source = tmp_path / "layouts.c"
    source.write_text(
        f"#include <stdio.h>\n#include <stddef.h>\n#include <ucp/api/ucp.h>\nint main(void) {{\n{lines}\n}}\n"
    )
    built = tmp_path / "layouts"
    done = subprocess.run([ucx_compiler, source, "-o", built], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = subprocess.run([built], capture_output=True, text=True, check=True).stdout.split()
    assert dict(zip(expected, map(int, told), strict=True)) == expected
