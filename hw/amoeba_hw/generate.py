"""Writes the NIC's Verilog, for AXI4 and for PCI Express: ``python -m amoeba_hw.generate DIRECTORY``."""

import argparse
import dataclasses
from pathlib import Path

from amoeba_model.parameters import NicParameters
from amoeba_model.settings import read_setting

from amoeba_hw.nic import Nic
from amoeba_hw.pcie.nic import PcieNic
from amoeba_hw.verilog import generate_verilog

__all__ = ["HOSTS", "parameters_from", "write_nic"]

HOSTS = {"axi": (Nic, "amoeba_nic"), "pcie": (PcieNic, "amoeba_nic_pcie")}
"""By the bus of the host: the component, and its module."""

_WIDTHS = (128, 256, 512)


def write_nic(directory, parameters, host="axi"):
    """Write ``amoeba_nic_<width>.v`` and its file list, and return the path of the first. Creates the directory.

    The list is ``amoeba_nic_<width>.f``, with names from its own folder on: ``verilator -F``, or ``-F`` of most
    simulators. With ``host="pcie"`` it is PcieNic, and all names begin with ``amoeba_nic_pcie``.
    """
    component, module = HOSTS[host]
    path = Path(directory) / f"{module}_{parameters.data_width}.v"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(generate_verilog(component(parameters), name=module))
    path.with_suffix(".f").write_text(f"// Module {module}, {parameters.data_width} bits.\n{path.name}\n")
    return path


def parameters_from(data_width, settings=()):
    """NicParameters of a width, with settings such as ``lines=16``, ``datatypes=integers`` or
    ``single_cycle_products=false``.

    Raises ValueError for a parameter that there is not, and for values that a NIC cannot have.
    """
    known = {field.name for field in dataclasses.fields(NicParameters)} - {"data_width"}
    chosen = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in known:
            raise ValueError(f"expected NAME=VALUE with one of {', '.join(sorted(known))}, got {setting!r}")
        chosen[name] = read_setting(name, text)
    return NicParameters(data_width=data_width, **chosen)


def main():
    parser = argparse.ArgumentParser(description="Write the NIC's Verilog, and a file list for each width.")
    parser.add_argument("directory", type=Path, help="where to write, such as hw/rtl")
    parser.add_argument("--data-width", type=int, action="append", help="bits per beat; default 128, 256 and 512")
    parser.add_argument("--host", action="append", choices=HOSTS, help="the host's bus; default all")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="settings",
        help="another parameter, such as lines=16, datatypes=integers, ops=SUM+BXOR or single_cycle_products=false; "
        "repeatable",
    )  # fmt: skip
    arguments = parser.parse_args()
    try:
        chosen = [parameters_from(width, arguments.settings) for width in arguments.data_width or _WIDTHS]
    except ValueError as error:
        parser.error(str(error))
    for host in arguments.host or HOSTS:
        for parameters in chosen:
            path = write_nic(arguments.directory, parameters, host)
            print(f"{path}: {path.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
