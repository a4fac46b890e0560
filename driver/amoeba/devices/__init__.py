"""What a NIC is driven through: opening devices, and where processes meet."""
