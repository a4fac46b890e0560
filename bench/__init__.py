"""``make bench``: exact cycle counts of the RTL, and ratios for everything that is timed."""
