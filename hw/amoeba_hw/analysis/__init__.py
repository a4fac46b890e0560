"""Checks of elaborated and of synthesized hardware: ready chains, clock crossings, levels, area by hierarchy."""
