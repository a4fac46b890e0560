"""``amoeba endpoint``: simulated NICs as PCI functions, for QEMU and others that speak vfio-user."""

import signal
from pathlib import Path
from typing import Annotated

import typer
from amoeba.devices.endpoint import open_endpoints
from amoeba_model.impairments import Impairments

from amoeba_tools.cli.common import DeviceOption, LossOption, device_kinds, readable_errors

__all__ = ["endpoint"]


def endpoint(
    socket: Annotated[Path, typer.Option(metavar="DIR", help="Where the sockets nic0.sock, nic1.sock ... are made.")],
    device: DeviceOption = ["model"],  # noqa: B006  typer's way to write a default; it is never changed
    count: Annotated[int | None, typer.Option(min=1, help="NICs; 2, or as many as are listed, if absent.")] = None,
    loss: LossOption = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of what happens to frames.")] = 0,
) -> None:
    """Serve simulated NICs of one network as PCI functions, until it is interrupted.

    A virtual machine gets one by QEMU's option (10.1 or later):

    -device '{"driver":"vfio-user-pci","socket":{"path":"DIR/nic0.sock","type":"unix"}}'
    """
    kinds = device_kinds(device, count)
    with readable_errors(), open_endpoints(kinds, socket, impairments=Impairments(seed, loss=loss)) as server:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: server.stop())
        for path in server.paths:
            print(f"serving {path}", flush=True)
        server.run()
