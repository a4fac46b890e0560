"""The host's side of the NIC: registers and doorbells, DMA, and the buses they are carried by."""
