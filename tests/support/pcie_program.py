"""The conformance kit on NICs behind a fake kernel: ``python -m tests.support.pcie_program FOLDER KINDS PART...``

A process of its own, as its memory becomes that of a virtual machine. The last line is what came out, as JSON.
"""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

from amoeba.devices.pcie.device import PcieDevice
from amoeba.libfabric.objects.fabric import Fabric
from amoeba_tools.conformance import run, select
from amoeba_tools.conformance.pair import Pair
from amoeba_tools.conformance.target import TargetSide

from tests.support.fake_vfio import FakeKernel

ADDRESSES = ("0000:01:00.0", "0000:02:00.0")


@contextlib.contextmanager
def endpoints(folder, kinds):
    """The sockets of ``amoeba endpoint``."""
    command = [sys.executable, "-m", "amoeba_tools", "endpoint", "--socket", str(folder), "--device", kinds]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield [server.stdout.readline().split()[1] for _ in kinds.split(",")]
        finally:
            server.terminate()


def main(folder, kinds, *parts):
    with endpoints(folder, kinds) as sockets:
        kernel = FakeKernel(folder, dict(zip(ADDRESSES, sockets, strict=True)))
        devices = [PcieDevice(address, kernel) for address in ADDRESSES]
        with Fabric(devices) as fabric:
            pair = Pair(fabric, TargetSide(fabric, 1), patience=30.0)
            report = run(pair, select(*parts) if parts else None)
            pair.domain.close()
        left = [len(device._maps) for device in devices]
    print(
        json.dumps(
            {
                "checks": {str(outcome.check): outcome.state for outcome in report.outcomes},
                "failures": {str(outcome.check): outcome.failure for outcome in report.failures},
                "maps left": left,
                "calls": kernel.ioctls,
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
