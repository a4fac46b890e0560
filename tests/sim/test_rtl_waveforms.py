# amaranth: UnusedElaboratable=no
"""Waveforms of the RTL device, in VCD and FST."""

import itertools
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from amoeba_model.device import DeviceError
from amoeba_sim.rtl import RtlDevice
from amoeba_sim.verilate import build_nic
from amoeba_tools.tracing.waveforms import _TOP

from tests.sim import copy_engine as engine


def test_a_waveform_is_written_by_a_build_that_can_and_refused_by_others(device, tmp_path):
    with pytest.raises(DeviceError, match="no waveform"):
        device.start_waves(tmp_path / "none.vcd")
    with RtlDevice(build_nic(engine.CopyEngine(64), waves="vcd")) as waving:
        waving.start_waves(tmp_path / "wave.vcd")
        waving.write(engine.SCRATCH, 0xABC)
        waving.run_until(20)
        waving.stop_waves()
        with pytest.raises(DeviceError, match="no waveform"):
            waving.start_waves(tmp_path / "missing" / "wave.vcd")
    text = (tmp_path / "wave.vcd").read_text()
    assert "bar__wdata" in text
    assert f"{0xABC:032b}"[-12:] in text
    scopes, ports = [], set()
    for kind, name in re.findall(r"^\s*\$(scope module|upscope|var \w+ \d+ \S+)(?: (\S+))?", text, re.M):
        if kind == "upscope":
            scopes.pop()
        elif kind.startswith("scope"):
            scopes.append(name)
        elif ".".join(scopes) == _TOP:
            ports.add(name)
    assert ports >= {"clk", "bar__wdata", "host__rdata", "tx__tvalid"}, "the views name what stands elsewhere"


def test_a_waveform_in_fst_holds_what_one_in_vcd_does(tmp_path):
    converter = shutil.which("fst2vcd")
    if converter is None or not Path("/usr/include/lz4.h").exists():
        pytest.skip("needs fst2vcd and the headers of lz4: apt-get install gtkwave liblz4-dev zlib1g-dev")
    texts = {}
    for waves in ("vcd", "fst"):
        path = tmp_path / f"wave.{waves}"
        with RtlDevice(build_nic(engine.CopyEngine(64), waves=waves)) as waving:
            waving.start_waves(path)
            waving.write(engine.SCRATCH, 0xABC)
            waving.run_until(20)
            waving.stop_waves()
            with pytest.raises(DeviceError, match="no waveform"):
                waving.start_waves(tmp_path / "missing" / path.name)
        if waves == "fst":
            texts[waves] = subprocess.run([converter, path], capture_output=True, text=True, check=True).stdout
        else:
            texts[waves] = path.read_text()
    names = {waves: set(re.findall(r"\$var .*? (\S+)(?: \[[\d:]+\])? \$end", text)) for waves, text in texts.items()}
    assert "bar__wdata" in names["fst"]
    assert names["fst"] == names["vcd"]
    assert f"{0xABC:032b}"[-12:] in texts["fst"]


def test_gtkwave_reads_a_waveform_and_its_time_is_in_nanoseconds(tmp_path):
    display, viewer = shutil.which("xvfb-run"), shutil.which("gtkwave")
    if display is None or viewer is None:
        pytest.skip("needs GTKWave and a display for it: apt-get install gtkwave xvfb xauth")
    path = tmp_path / "wave.vcd"
    with RtlDevice(build_nic(engine.CopyEngine(64), waves="vcd")) as waving:
        waving.start_waves(path)
        waving.run_until(waving.cycles + 20)
        waving.stop_waves()
    text = path.read_text()
    assert re.search(r"\$timescale\s+1ns\s+\$end", text)
    assert [name for name in re.findall(r"\$var .*? (\S+)(?: \[[\d:]+\])? \$end", text) if ":" in name] == []
    times = [int(time) for time in re.findall(r"^#(\d+)$", text, re.M)]
    assert {later - earlier for earlier, later in itertools.pairwise(times)} == {2}  # half of a cycle at 250 MHz
    script = tmp_path / "names.tcl"
    script.write_text(
        "for {set i 0} {$i < [gtkwave::getNumFacs]} {incr i} { puts [gtkwave::getFacName $i] }\n"
        "gtkwave::/File/Quit\n"
    )
    command = [display, "-a", viewer, "-S", script, path]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "error" not in (done.stdout + done.stderr).lower()
    assert "TOP.boundary.nic.clk" in done.stdout.splitlines()
