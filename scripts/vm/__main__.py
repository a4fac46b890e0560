"""Runs a command in a virtual machine that has simulated NICs: ``python scripts/vm [--device rtl,rtl] COMMAND``."""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from machine import OutOfReachError, endpoints, run_guest

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="model,model", help="the NICs: model, rtl or rtl+pcie, comma-separated")
    parser.add_argument("--loss", default="0", help="chance that a frame is lost")
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("command", help="for the guest's shell, such as 'amoeba info'")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            with endpoints(given.device.split(","), Path(folder), "--loss", given.loss) as sockets:
                guest = run_guest(given.command, sockets, timeout=given.timeout)
        except OutOfReachError as error:
            sys.exit(f"no virtual machine: {error}")
    print(guest.output)
    sys.exit(124 if guest.status is None else guest.status)
