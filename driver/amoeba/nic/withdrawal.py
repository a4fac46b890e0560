"""The end of a key: from then on no access of a peer touches the memory behind it."""

from amoeba_model.device import DeviceClosedError, DeviceError
from amoeba_model.interruptions import uninterrupted

from amoeba.nic.nic import Nic

__all__ = ["Withdrawal"]


class Withdrawal:
    """Withdraws a key in two steps, so that an interrupted call can be repeated."""

    def __init__(self, nic: Nic, key: int) -> None:
        self._nic = nic
        self._key = key
        self._has_key = True

    def finish(self) -> None:
        """Invalidate the key, then wait until the requests accepted by it have ended.

        The memory may be freed when this returns, and not when it raises. Raises as :meth:`Nic.drain`, or what a
        signal's handler raises.
        """
        if self._has_key:
            uninterrupted(self._remove)
        self._nic.drain()

    def _remove(self) -> None:
        self._has_key = False  # however it ends, the driver's table has the key no more
        try:
            self._nic.keys.remove(self._key)
        except DeviceClosedError:
            raise
        except DeviceError:
            if not self._nic.find_lost():
                raise
