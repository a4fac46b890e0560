"""Ethernet frames out of headers and payloads, and back: everything that knows a byte position on the wire."""
