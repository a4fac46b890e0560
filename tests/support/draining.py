"""A NIC that does not end its peers' requests."""

from collections.abc import Callable

import pytest
from amoeba.nic.nic import Nic


class Busy:
    """A NIC that goes on with its requests for as long as ``busy``."""

    def __init__(self, nic: Nic, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nic = nic
        self.busy = True
        read = nic.registers.read
        monkeypatch.setattr(
            nic.registers,
            "read",
            lambda block, register, index=0: self._read(read, block, register, index),
        )
        monkeypatch.setattr("amoeba.nic.nic._DRAIN_TIME", 0.0)

    def _read(self, read: Callable[..., int], block: str, register: str, index: int) -> int:
        return 1 if self.busy and register == "draining" else read(block, register, index)
