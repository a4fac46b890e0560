"""Writes the NIC's Verilog: ``python -m amoeba_hw.generate DIRECTORY``."""

import argparse
from pathlib import Path

from amoeba_model.parameters import NicParameters

from amoeba_hw.nic import Nic
from amoeba_hw.verilog import generate_verilog

__all__ = ["write_nic"]


def write_nic(directory, parameters):
    """Write ``amoeba_nic_<width>.v`` and return its path. Creates the directory."""
    path = Path(directory) / f"amoeba_nic_{parameters.data_width}.v"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(generate_verilog(Nic(parameters), name="amoeba_nic"))
    return path


def main():
    parser = argparse.ArgumentParser(description="Write the NIC's Verilog.")
    parser.add_argument("directory", type=Path, help="where to write, such as hw/rtl")
    parser.add_argument("--data-width", type=int, action="append", help="bits per beat; default 128, 256 and 512")
    arguments = parser.parse_args()
    for width in arguments.data_width or (128, 256, 512):
        path = write_nic(arguments.directory, NicParameters(data_width=width))
        print(f"{path}: {path.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
