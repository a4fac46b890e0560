"""The NIC, transaction by transaction: the specification that the hardware is held to.

One module per block of the hardware, under its name; one function per stage of "Life of a request" in
``docs/architecture.md``. The rules of each block: ``hw/amoeba_hw/*/README.md``.
"""

from amoeba_model.nic.device import ModelDevice

__all__ = ["ModelDevice"]
