"""The node's netlist of an Artix-7's cells as a device: what the specification does, and what has another name.

Covers ``amoeba_sim/netlist/device.py``.
"""
