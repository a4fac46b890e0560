"""Faults of the hardware, by block, with the specification that notices each component's."""
