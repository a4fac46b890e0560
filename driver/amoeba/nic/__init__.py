"""One NIC: its registers, and who uses which entry of its tables."""
