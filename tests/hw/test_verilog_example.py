"""The NIC's Verilog in testbenches that are not ours, on Verilator and on Icarus: examples/verilog."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from amoeba_sim.verilate import cache_directory, package_files

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "verilog"
PAGE = ROOT / "hw" / "rtl" / "README.md"
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def make(target, build):
    tools = Path(sys.executable).parent
    variables = [f"BUILD={build}", f"PYTHON={sys.executable}", f"VERILATOR={tools / 'verilator-cli'}"]
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    done = subprocess.run(
        ["make", "-C", EXAMPLE, target, *variables], env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def build():
    """The folder of a build of this very hardware, which later runs find again."""
    files = [*package_files("amoeba_hw", "amoeba_model"), EXAMPLE / "Makefile", EXAMPLE / "ports.vlt"]
    content = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files))).hexdigest()[:16]
    folders = cache_directory().parent
    for old in folders.glob("verilog-example-*"):
        if not old.name.endswith(content):
            shutil.rmtree(old)
    return folders / f"verilog-example-{content}"


def test_the_plain_testbench_has_a_fetch_add_executed_over_a_looped_link(build):
    said = make("plain", build)
    told = re.findall(r"^ *\d+  (.*)$", said, re.M)
    assert told == [
        "a NIC of 128 bits, 1 context(s), 2 peers",
        "doorbell",
        "DMA read of 4 beats at 0x10000000",
        "DMA read of 1 beats at 0x10002000",
        "frame of 114 bytes:",
        "DMA read of 1 beats at 0x10004000",
        "DMA write of 1 beats at 0x10004000",
        "frame of 86 bytes:",
        "DMA write of 1 beats at 0x10003000",
        "DMA write of 2 beats at 0x10001000",
        "completion of opcode 4: status 1",
        "fetched 0x8000000000000003, now 0x8000000000000008",
        "all as it should be",
    ]
    dumps = re.findall(r"^ *\d+  frame of .*\n((?: {8}(?:[0-9a-f]{2} ?)+\n)+)", said, re.M)
    request, answer = map(bytes.fromhex, dumps)
    ethernet = bytes.fromhex("0200000000010200000000010800")  # to, from, EtherType of IPv4
    assert request[:14] == answer[:14] == ethernet
    assert bytes.fromhex("123456789abcdef0") in request
    assert (5).to_bytes(8, "big") in request
    assert (0x8000000000000003).to_bytes(8, "big") in answer


def test_the_page_shows_what_the_plain_testbench_prints(build):
    lines = [line for line in make("plain", build).splitlines() if re.match(r" *\d+  ", line)]
    page = (EXAMPLE / "README.md").read_text()
    assert page.split("\n```\n")[2].splitlines() == lines


def test_the_cocotb_testbench_does_the_same(build):
    assert "TESTS=1 PASS=1 FAIL=0" in make("cocotb", build)


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="needs iverilog (Debian package: iverilog)")
def test_icarus_runs_the_cocotb_testbench(build):
    assert "TESTS=1 PASS=1 FAIL=0" in make("icarus", build)


def test_the_page_names_the_instances_that_there_are(build):
    make("plain", build)
    (verilog,) = (build / "rtl").glob("*.v")
    modules = set(re.findall(r"^module \\amoeba_nic\.(\S+) ", verilog.read_text(), re.M))
    assert [name for name in modules if "$" in name] == [], "two things of one name: waveforms show neither as it is"
    outer = {name for name in modules if name.count(".") == name.startswith("core.") and name != "core"}
    named = set(re.findall(r"`([\w.]+)`", "".join(re.findall(r"^\| (`[^|]+`) \|", hierarchy(), re.M))))
    assert named == outer
    for inner in re.findall(r"`(\w+)`(?= \(|,)", hierarchy().rpartition("tells it apart:")[2]):
        assert any(name.endswith(f".{inner}") for name in modules), inner


def hierarchy():
    return PAGE.read_text().partition("## Hierarchy")[2].partition("\n## ")[0]


def test_the_file_list_names_what_lies_beside_it(build):
    make("plain", build)
    (listed,) = (build / "rtl").glob("*.f")
    comment, name = listed.read_text().splitlines()
    assert comment.startswith("//")
    assert (listed.parent / name).is_file()
    assert name == f"{listed.stem}.v"
