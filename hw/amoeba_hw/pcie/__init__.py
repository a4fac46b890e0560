"""The NIC on PCI Express: from the core's plain streams to transaction layer packets, whatever carries them.

Nothing here knows a hard IP but the modules named after one.
"""
