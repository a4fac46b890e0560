"""NICs on PCI Express, through Linux VFIO: the driver is in the application's process, and no kernel module."""
