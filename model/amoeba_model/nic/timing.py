"""Nominal costs, in cycles: what the model's clock adds for each step.

They make cycle counts of the model meaningful in order of magnitude and the order of events plausible; only
the RTL knows exact figures. Beats of frames and lines cost one cycle each on top.
"""

__all__ = [
    "CHECK",
    "COMPLETION",
    "DESCRIPTOR_SPACING",
    "EVENT",
    "EXECUTE",
    "HOST_READ",
    "PACKETIZE",
    "RECEIVE",
    "RESPOND",
    "RESULT",
]

HOST_READ = 250
"""From a host read's request to its first beat: a microsecond of PCIe at 250 MHz."""
DESCRIPTOR_SPACING = 2
"""Between two descriptor fetches: they are pipelined."""
PACKETIZE = 4
"""From a checked descriptor, or its last operand, to the request frame."""
RECEIVE = 4
"""From a frame's last beat to its decoded headers."""
CHECK = 6
"""PDC, key, bounds and rights."""
EXECUTE = 8
"""From a line at hand to its new value."""
EVENT = 2
"""From the last line to the event entry."""
RESPOND = 4
"""From the last line to the acknowledge frame."""
RESULT = 4
"""From an acknowledge frame's headers to its data on the host's bus."""
COMPLETION = 4
"""From the last result to the completion entry."""
