"""``amoeba endpoint``: simulated NICs as PCI functions, for QEMU and other clients of vfio-user."""

import signal
from pathlib import Path
from typing import Annotated

import typer
from amoeba.devices.addresses import MAX_NICS
from amoeba.devices.endpoint import open_endpoints
from amoeba_model.impairments import Impairments

from amoeba_tools.cli.common import DeviceOption, LossOption, device_kinds

__all__ = ["endpoint"]


def endpoint(
    socket: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the sockets nic0.sock, nic1.sock ...")],
    device: DeviceOption = ["model"],  # noqa: B006  typer's way to write a default; it is never changed
    count: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_NICS, help="Number of NICs. 2 if absent, or as many as --device lists."),
    ] = None,
    loss: LossOption = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed that decides which frames are lost.")] = 0,
) -> None:
    """Serve simulated NICs of one network as PCI functions, until Ctrl-C.

    Example: amoeba endpoint --socket /tmp/nics --device model --count 2

    A virtual machine gets a NIC by this option of QEMU (10.1 or later):

    -device '{"driver":"vfio-user-pci","socket":{"path":"DIR/nic0.sock","type":"unix"}}'
    """
    kinds = device_kinds(device, count)
    with open_endpoints(kinds, socket, impairments=Impairments(seed, loss=loss)) as server:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: server.stop())
        for path in server.paths:
            print(f"serving {path}", flush=True)
        server.run()
