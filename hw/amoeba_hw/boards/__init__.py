"""Top levels of boards: the NIC, an integrated block for PCI Express, and one for 100 Gbit/s Ethernet.

What Vivado needs besides, and which boards there are: ``hw/boards/README.md``.
"""
