"""``amoeba node``: boards with Ethernet and memory and no host."""

import json
import re
import secrets
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import Annotated

import typer
from amoeba.nic.registers import register_at
from amoeba_model.boot_list import boot_entries
from amoeba_model.node import NodeSettings
from rich.console import Console
from rich.table import Table

from amoeba_tools.cli.common import JsonOption, check_writable, facts_table, writes, writing
from amoeba_tools.node_boot import node_facts, write_node

__all__ = ["node"]

node = typer.Typer(
    help="""Configure memory nodes: boards with Ethernet and memory and no host.

    Example: amoeba node config --mac 02:00:00:00:00:02 --ip 10.0.0.2
    """,
    no_args_is_help=True,
)
_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d{1,12})([KMG]?)", text.upper())
    if found is None:
        raise typer.BadParameter(f"expected bytes, such as 524288 or 512K, got {text!r}")
    return int(found[1]) * _SUFFIXES[found[2]]


def _mac(text: str) -> bytes:
    if not re.fullmatch(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}", text):
        raise typer.BadParameter(f"expected an address such as 02:00:00:00:00:02, got {text!r}")
    return bytes.fromhex(text.replace(":", ""))


def _ip(text: str) -> IPv4Address:
    try:
        return IPv4Address(text)
    except AddressValueError:
        raise typer.BadParameter(f"expected an address such as 10.0.0.2, got {text!r}") from None


def _key(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise typer.BadParameter(f"expected a number such as 0x1234, got {text!r}") from None


@node.command()
def config(
    mac: Annotated[bytes, typer.Option(parser=_mac, metavar="MAC", help="Ethernet address of the node.")],
    ip: Annotated[IPv4Address, typer.Option(parser=_ip, metavar="IP", help="IPv4 address of the node.")],
    region: Annotated[
        int, typer.Option(parser=_size, metavar="BYTES", help="Memory that peers may use, such as 512K.")
    ] = "512K",  # type: ignore[assignment]  # typer parses defaults, too
    key: Annotated[
        int | None, typer.Option(parser=_key, metavar="KEY", help="Key of the region. Random if absent.")
    ] = None,
    build: Annotated[str, typer.Option(metavar="NAME", help="Build of the node's NIC.")] = "node",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.json", callback=writes(".json"), help="Write the list here."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the boot list of a memory node: the register writes that put its NIC in service.

    Example: amoeba node config --mac 02:00:00:00:00:02 --ip 10.0.0.2 -o node.json

    Everyone who knows the key and reaches the node can use the region.
    """
    check_writable(output)
    try:
        chosen = secrets.randbits(63) if key is None else key
        settings = NodeSettings(mac, int(ip), region, chosen, build)
        facts = node_facts(settings)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if output is not None:
        with writing(output) as path:
            write_node(path, facts)
    if as_json:
        print(json.dumps(facts, indent=1))
    elif output is None:
        _print_list(settings, facts)
    else:
        _print_facts(settings, facts)


def _print_facts(settings: NodeSettings, facts: dict[str, object]) -> None:
    shown = [(name, str(facts[name])) for name in ("mac", "ip", "build", "region", "key", "endpoint")]
    Console().print(facts_table("memory node", [*shown, ("memory", f"{settings.memory} bytes")]))


def _print_list(settings: NodeSettings, facts: dict[str, object]) -> None:
    _print_facts(settings, facts)
    words = facts["words"]
    assert isinstance(words, list)
    entries = boot_entries([int(word, 16) for word in words])
    table = Table(title=f"boot list: {len(entries)} entries, CRC {words[-1]}")
    for title in ("", "offset", "register", "value"):
        table.add_column(title, justify="left" if title in ("", "register") else "right")
    for entry in entries:
        name, _ = register_at(entry.offset, settings.parameters)
        table.add_row("wait" if entry.waits else "write", f"{entry.offset:#07x}", name, f"{entry.value:#x}")
    Console().print(table)
