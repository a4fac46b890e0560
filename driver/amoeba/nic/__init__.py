"""One NIC: its registers and its tables."""
