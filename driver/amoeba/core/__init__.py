"""Services that depend on neither the NIC nor an API."""
