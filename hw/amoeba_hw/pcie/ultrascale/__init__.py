"""The endpoint's streams on the UltraScale+ integrated block for PCI Express: PCIE4 and PCIE4C, 256 and 512 bits.

The block is generated with DWORD alignment, client tags, without straddling, parity and its own MSI-X table
(``hw/boards``). Its streams are declared in :mod:`amoeba_model.ultrascale`.
"""
