"""Boot lists of memory nodes: recorded from a session of the driver on the model, and kept in files."""

import errno
import json
from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from amoeba import MrAccess, MrMode
from amoeba.core.buffers import address_of, allocate
from amoeba.devices.recording import RecordingDevice
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.nic.boot import boot_list
from amoeba_model.boot_list import BootEntry, boot_entries, boot_words
from amoeba_model.node import NodeSettings

__all__ = ["node_facts", "read_node", "record_boot_list", "write_node"]

_JOB = _PROCESS = 1


def record_boot_list(settings: NodeSettings) -> tuple[tuple[BootEntry, ...], bytes]:
    """Return the entries of a node's boot list, and the name of its endpoint, by which peers know it.

    The driver opens a model NIC, sets its addresses, registers the region and enables an endpoint, last of all.
    """
    recorded = RecordingDevice(settings.parameters, settings.mac)
    memory = allocate(settings.region)[: settings.region]
    with Fabric([recorded], "model") as fabric:
        nic = fabric.nics[0]
        nic.set_address(settings.mac, settings.ip)
        domain = fabric.domain(0, mr_mode=MrMode.FI_MR_ALLOCATED, job_id=_JOB, pid_on_fep=_PROCESS)
        access = MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE
        with (
            domain.mr_reg(memory, access, requested_key=settings.key), domain.cq_open() as queue,
            domain.av_open() as nobody, domain.endpoint(cq=queue, av=nobody) as endpoint,
        ):  # fmt: skip
            name = endpoint.getname()
            entries = boot_list(nic.registers, recorded, address_of(memory), settings)
        domain.close()
    return entries, name


def node_facts(settings: NodeSettings) -> dict[str, object]:
    """Record the boot list of a node; return the list with the settings, as JSON has them."""
    entries, name = record_boot_list(settings)
    return {
        "build": settings.build,
        "mac": settings.mac.hex(":"),
        "ip": str(IPv4Address(settings.ip)),
        "region": settings.region,
        "key": f"{settings.key:#x}",
        "endpoint": name.hex(),
        "words": [f"{word:#010x}" for word in boot_words(entries)],
    }


def write_node(path: Path, facts: Mapping[str, object]) -> None:
    """Write a file with what :func:`node_facts` returned."""
    path.write_text(json.dumps(facts, indent=1) + "\n")


def read_node(path: Path) -> tuple[NodeSettings, tuple[int, ...]]:
    """Return the settings and the checked boot list of a file that :func:`write_node` wrote.

    Raises OSError for a file that is damaged, or none of its kind.
    """
    try:
        facts: dict[str, Any] = json.loads(path.read_text())
        settings = NodeSettings(
            bytes.fromhex(facts["mac"].replace(":", "")), int(IPv4Address(facts["ip"])), facts["region"],
            int(facts["key"], 16), facts["build"],
        )  # fmt: skip
        words = tuple(int(word, 16) for word in facts["words"])
        boot_entries(words)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise OSError(errno.EINVAL, f"expected a node's configuration, got {error!r}", str(path)) from error
    return settings, words
