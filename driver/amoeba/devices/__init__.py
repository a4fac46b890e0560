"""Devices, which drive NICs: their kinds, how they are opened, and where processes meet."""
