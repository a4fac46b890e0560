"""Registers before and behind the ECP5's multipliers, moved into their blocks.

A MULT18X18D has registers for its factors and for its product, but Yosys' ``synth_ecp5`` leaves all registers in the
fabric. Then the ways to a block and back, whose place on the chip is given, are both in the multiplier's cycle.

Parameters and ports are those of Yosys' declaration of the block and of nextpnr's packer: ``REG_INPUTA_CLK``,
``REG_INPUTB_CLK`` and ``REG_OUTPUT_CLK`` name the clock of a register, by default with the enable CE0 and the reset
RST0. nextpnr knows the timing of a block with registers at both inputs or at none, and of one clock, CLK0.
"""

from collections import defaultdict

__all__ = ["move_registers"]

_FACTORS = [f"{side}{bit}" for side in "AB" for bit in range(18)]
_PRODUCT = [f"P{bit}" for bit in range(36)]


def move_registers(netlist):
    """Move registers into the MULT18X18D that they feed, or that feed them.

    The factors' registers move if all bits of both factors are either constant zero or from plain registers of one
    clock; such a register stays for what else reads it. The product's registers move if each bit that is read, is
    read by one plain register of the one clock only. *Plain*: loads in every cycle, begins as zero. All registers of
    a block are reset by GSR, or none is.

    Parameters
    ----------
    netlist : dict
        Output of Yosys' ``write_json``, after ``synth_ecp5``; it is not changed.

    Returns
    -------
    dict
        The netlist with the registers moved; no cycle is different.
    """
    modules = {name: _Registers(module).moved() for name, module in netlist["modules"].items()}
    return {**netlist, "modules": modules}


class _Registers:
    """One module: its cells, and by each net what drives and what reads it."""

    def __init__(self, module):
        self._module = module
        self._cells = dict(module["cells"])
        self._driver = {}
        self._readers = defaultdict(set)
        for port in module["ports"].values():
            for net in port["bits"]:
                self._readers[net].add((None, None))
        for name, cell in self._cells.items():
            for port, nets in cell["connections"].items():
                for net in nets:
                    if cell["port_directions"][port] == "output":
                        self._driver[net] = name
                    else:
                        self._readers[net].add((name, port))

    def moved(self):
        for name in [name for name, cell in self._cells.items() if cell["type"] == "MULT18X18D"]:
            self._move_factors(name)
            self._move_product(name)
        return {**self._module, "cells": self._cells}

    def _move_factors(self, name):
        nets = {port: self._cells[name]["connections"][port][0] for port in _FACTORS}
        registers = {port: self._driver.get(net) for port, net in nets.items() if net != "0"}
        clock, gsr = self._common(registers.values())
        # Of one registered factor nextpnr would not know the timing.
        if clock is None or {port[0] for port in registers} != {"A", "B"}:
            return
        before = {port: self._cells[register]["connections"]["DI"] for port, register in registers.items()}
        for port, (net,) in before.items():
            self._readers[nets[port]].remove((name, port))
            self._readers[net].add((name, port))
        self._switch_on(name, ("INPUTA", "INPUTB"), clock, before, gsr)
        for register in set(registers.values()):
            if not self._readers[self._cells[register]["connections"]["Q"][0]]:
                self._remove(register)

    def _move_product(self, name):
        connections = self._cells[name]["connections"]
        readers = {port: self._readers[connections[port][0]] for port in _PRODUCT if port in connections}
        read = {port: next(iter(found)) for port, found in readers.items() if found}
        if any(len(found) > 1 for found in readers.values()) or any(port != "DI" for _, port in read.values()):
            return
        registers = {port: register for port, (register, _) in read.items()}
        clock, gsr = self._common(registers.values())
        if clock is None:
            return
        if "CLK0" in connections and (connections["CLK0"], self._cells[name]["parameters"]["GSR"]) != (clock, gsr):
            return
        after = {port: self._cells[register]["connections"]["Q"] for port, register in registers.items()}
        self._switch_on(name, ("OUTPUT",), clock, after, gsr)
        for port, (net,) in after.items():
            self._remove(registers[port])
            self._driver[net] = name

    def _common(self, names):
        """Return the clock's connection and whether GSR resets, if plain registers agree in both; else Nones."""
        cells = [self._cells.get(name) for name in names]
        if not all(cell and _is_plain(cell) for cell in cells):
            return None, None
        common = {(*cell["connections"]["CLK"], cell["parameters"].get("GSR", "ENABLED")) for cell in cells}
        if len(common) != 1:
            return None, None
        ((clock, gsr),) = common
        return [clock], gsr

    def _switch_on(self, name, registers, clock, beyond, gsr):
        """Switch on registers of a block, and connect its ports to what is beyond those moved."""
        cell = self._cells[name]
        control = {"CLK0": clock, "CE0": ["1"], "RST0": ["0"]}
        clocks = {f"REG_{register}_CLK": "CLK0" for register in registers}
        self._cells[name] = {
            **cell,
            "parameters": {**cell["parameters"], **clocks, "GSR": gsr},
            "port_directions": {**cell["port_directions"], **dict.fromkeys(control, "input")},
            "connections": {**cell["connections"], **control, **beyond},
        }

    def _remove(self, register):
        for port, (net,) in self._cells.pop(register)["connections"].items():
            self._readers[net].discard((register, port))


def _is_plain(cell):
    parameters, connections = cell["parameters"], cell["connections"]
    return (
        cell["type"] == "TRELLIS_FF"
        and parameters.get("CEMUX", "CE").strip() == "1"  # Yosys writes strings of digits with a space behind.
        and parameters.get("CLKMUX", "CLK") == "CLK"
        and parameters.get("REGSET", "RESET") == "RESET"
        and parameters.get("LSRMUX", "LSR") == "LSR"
        and connections.get("LSR", ["0"]) == ["0"]
    )
