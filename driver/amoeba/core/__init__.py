"""Services that know neither NIC nor API."""
