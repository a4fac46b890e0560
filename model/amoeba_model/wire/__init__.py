"""The wire: Ultra Ethernet Transport (UET) in UDP, IPv4 and Ethernet II."""
