"""Proof specifications of the hardware, each a component around the one it is about.

``catalog.py`` lists them; ``python -m tests.formal`` proves them and prints the table of ``docs/verification.md``.
"""
