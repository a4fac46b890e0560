"""Top levels of boards: the NIC, an integrated block for PCI Express, and one for 100 Gbit/s Ethernet.

``hw/boards/README.md`` describes the boards and the further input of Vivado.
"""
