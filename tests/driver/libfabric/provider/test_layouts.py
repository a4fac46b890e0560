"""The declarations of libfabric's structures equal Debian's headers, to the byte.

Covers ``libfabric/provider/library.py``.
"""

import re
import subprocess

import pytest
from amoeba.libfabric.provider.layouts import TYPES
from amoeba.libfabric.provider.tables import TABLES

cffi = pytest.importorskip("cffi")
HEADERS = ("fabric", "fi_domain", "fi_endpoint", "fi_cm", "fi_eq", "fi_rma", "fi_tagged", "fi_atomic", "fi_trigger",
           "fi_collective")  # fmt: skip
OURS = {"amoeba_fid", "fi_ops"}
"""Structures that libfabric lacks, or has as a table."""
PADDING = {("fi_triggered_context", "rest")}


def declared():
    ffi = cffi.FFI()
    ffi.cdef("struct iovec { void *iov_base; size_t iov_len; };")
    ffi.cdef(TYPES)
    for name in re.findall(r"^struct (\w+) {", TYPES, re.M):
        if name not in OURS:
            yield name, ffi.sizeof(f"struct {name}"), {
                field: detail.offset for field, detail in ffi.typeof(f"struct {name}").fields
                if (name, field) not in PADDING
            }  # fmt: skip


def told_by_the_compiler(cc, folder, expressions):
    lines = "\n".join(f'    printf("%zu\\n", (size_t)({expression}));' for expression in expressions)
    includes = "\n".join(f"#include <rdma/{header}.h>" for header in HEADERS)
    source = folder / "layouts.c"
    source.write_text(f"#include <stdio.h>\n#include <stddef.h>\n{includes}\nint main(void) {{\n{lines}\n}}\n")
    program = folder / "layouts"
    done = subprocess.run([cc, str(source), "-o", str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    return dict(zip(expressions, map(int, told), strict=True))


def test_structures_have_their_places(headers, tmp_path):
    expected = {}
    for name, size, fields in declared():
        expected[f"sizeof(struct {name})"] = size
        expected |= {f"offsetof(struct {name}, {field})": offset for field, offset in fields.items()}
    assert len(expected) > 250
    assert told_by_the_compiler(headers, tmp_path, expected) == expected


def test_tables_have_all_their_functions_in_order(headers, tmp_path):
    expected = {}
    for table in TABLES:
        expected[f"sizeof(struct {table.name})"] = 8 * (1 + len(table.entries))
        for place, entry in enumerate(table.entries, 1):
            expected[f"offsetof(struct {table.name}, {entry.name})"] = 8 * place
    assert len(TABLES) >= 16
    assert told_by_the_compiler(headers, tmp_path, expected) == expected
