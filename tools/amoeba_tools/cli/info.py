"""``amoeba info``: attributes of devices as libfabric's ``fi_info`` prints them, and facts from their registers."""

import enum
import json
from typing import Annotated, TypeVar

import typer
from amoeba.devices.devices import open_device
from amoeba.libfabric.objects.cluster import getinfo
from amoeba.libfabric.objects.constants import AddrFormat, Caps, Datatype, EpType, InfoFlags, Mode, MrMode, Op
from amoeba.libfabric.objects.info import PROVIDER, PROVIDER_VERSION
from amoeba.libfabric.objects.printing import API_VERSION, version_text
from amoeba.libfabric.objects.structures import DomainAttr, EpAttr, FabricAttr, Info
from amoeba.nic.nic import Nic
from amoeba_model.opcodes import Form
from rich.console import Console
from rich.table import Table

from amoeba_tools.cli.common import BuildOption, DeviceOption, device_kinds, facts_table

__all__ = ["info"]

Flags = TypeVar("Flags", bound=enum.IntFlag)
Enumeration = TypeVar("Enumeration", bound=enum.Enum)
_ANY_MR_MODE = MrMode(sum(MrMode)) & ~(MrMode.FI_MR_BASIC | MrMode.FI_MR_SCALABLE)


def info(
    device: DeviceOption = ["model"],  # noqa: B006  typer's way to write a default; it is never changed
    build: BuildOption = None,
    node: Annotated[
        str | None, typer.Option("--node", "-n", help="Address of the NIC to reach, such as 10.0.0.1.")
    ] = None,
    port: Annotated[str | None, typer.Option("--port", "-P", help="Endpoint context of that NIC.")] = None,
    caps: Annotated[str, typer.Option("--caps", "-c", help="Required capabilities, such as FI_RMA|FI_ATOMIC.")] = "",
    mode: Annotated[str, typer.Option("--mode", "-m", help="Modes that the application supports: FI_CONTEXT.")] = "",
    ep_type: Annotated[str, typer.Option("--ep_type", "-t", help="Required endpoint type, such as FI_EP_MSG.")] = "",
    addr_format: Annotated[str, typer.Option("--addr_format", "-a", help="Required address format.")] = "",
    provider: Annotated[str | None, typer.Option("--provider", "-p", help="Required provider.")] = None,
    domain: Annotated[str | None, typer.Option("--domain", help="Required domain, such as amoeba0.")] = None,
    fabric: Annotated[str | None, typer.Option("--fabric", "-f", help="Required fabric, such as model.")] = None,
    providers: Annotated[bool, typer.Option("--list", "-l", help="Print the providers and end.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print all attributes, registers and atomics.")
    ] = False,
    versions: Annotated[bool, typer.Option("--version", help="Print the versions and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the device's facts as JSON.")] = False,
) -> None:
    """Print the attributes of devices, as fi_info does; with -v also register blocks and atomics.

    Example: amoeba info --device rtl --verbose
    """
    hints = Info(
        _flags(Caps, caps, "--caps"),
        _flags(Mode, mode, "--mode"),
        _member(AddrFormat, addr_format, "--addr_format"),
        ep_attr=EpAttr(_member(EpType, ep_type, "--ep_type")),
        domain_attr=DomainAttr(domain, mr_mode=_ANY_MR_MODE),
        fabric_attr=FabricAttr(fabric, provider),
    )
    if providers:
        for found in getinfo(flags=InfoFlags.FI_PROV_ATTR_ONLY):
            print(f"{found.fabric_attr.prov_name}:\n    version: {version_text(found.fabric_attr.prov_version)}")
        return
    if versions:
        print(f"{PROVIDER}: {version_text(PROVIDER_VERSION)}\nlibfabric api: {version_text(API_VERSION)}")
        return
    for kind in dict.fromkeys(device_kinds(device, None)):
        if as_json:
            with open_device(kind) as opened:
                print(json.dumps(_facts(Nic(opened)), indent=2))
        else:
            _print(kind, getinfo(hints, node=node, service=port, kinds=[kind]), verbose)


def _flags(flags: type[Flags], names: str, option: str) -> Flags:
    """Return the flags of a list of names, separated by ``|``."""
    return flags(sum({_member(flags, name.strip(), option) for name in names.split("|") if name}))


def _member(enumeration: type[Enumeration], name: str, option: str) -> Enumeration:
    """Return the value of a name; without a name the value 0, which requires nothing."""
    try:
        return enumeration[name] if name else enumeration(0)
    except KeyError:
        known = ", ".join(enumeration.__members__)
        raise typer.BadParameter(f"unknown name {name!r}; expected {known}", param_hint=option) from None


def _print(kind: str, offered: list[Info], verbose: bool) -> None:
    for found in offered:
        print(found if verbose else _summary(found))
    if verbose:
        console = Console()
        with open_device(kind) as opened:
            nic = Nic(opened)
            for table in (_sizes(nic), _blocks(nic), _atomics(nic)):
                console.print(table)


def _summary(found: Info) -> str:
    """Return the lines that ``fi_info`` prints without ``-v``."""
    fabric = found.fabric_attr
    return "\n".join(
        (
            f"provider: {fabric.prov_name}",
            f"    fabric: {fabric.name}",
            f"    domain: {found.domain_attr.name}",
            f"    version: {version_text(fabric.prov_version)}",
            f"    type: {found.ep_attr.type.name}",
            f"    protocol: {found.ep_attr.protocol.name}",
        )
    )


def _sizes(nic: Nic) -> Table:
    parameters = nic.parameters
    facts = (
        ("datapath", f"{parameters.data_width} bits per beat"),
        ("clock", f"{parameters.clock_hz / 1e6:g} MHz"),
        ("endpoint contexts", f"{parameters.contexts}"),
        ("keys", f"{parameters.keys}"),
        ("peers", f"{parameters.peers}" if parameters.has_initiator else "none: no initiator"),
        ("receives per context", _receives(nic)),
        ("event rings", "one per context" if parameters.event_rings else "none: immediate data is refused"),
        ("window per peer", f"{parameters.window} packets"),
        ("payload per frame", f"{parameters.payload} bytes"),
        ("an unreachable peer fails after", _patience(nic)),
        ("host memory reserved for the NIC", _host_memory(nic)),
        ("contexts reach each other's memory", "no" if nic.device.isolates_contexts else "yes: one address space"),
    )
    return facts_table(nic.device.name, facts)


def _receives(nic: Nic) -> str:
    parameters = nic.parameters
    if not parameters.has_messages:
        return "none: peers' messages are refused"
    return f"{parameters.receives} posted, {parameters.unexpected} unexpected messages"


def _patience(nic: Nic) -> str:
    """Return the time until a peer fails. Stepped NICs count simulated time."""
    shown = f"{nic.retransmission.patience(nic.parameters.clock_hz) * 1e3:.3g} ms"
    return f"{shown} of simulated time" if nic.device.stepped else shown


def _host_memory(nic: Nic) -> str:
    """Return the host memory that a NIC reserves, without registered regions.

    The memory of a NIC that is not simulated is pinned, so that the kernel cannot page it out.
    """
    parameters = nic.parameters
    answers = parameters.target_pdcs * parameters.window * parameters.payload
    messages = parameters.unexpected * parameters.payload
    shown = f"{answers / (1 << 20):g} MiB"
    if messages:
        shown += f", {messages / (1 << 20):g} MiB per context that receives messages"
    return shown if nic.device.stepped else f"{shown}: pinned"


def _blocks(nic: Nic) -> Table:
    table = Table(title="register blocks")
    table.add_column("offset", justify="right")
    table.add_column("block")
    table.add_column("type", justify="right")
    table.add_column("version", justify="right")
    table.add_column("bytes", justify="right")
    for placed in nic.blocks:
        block = placed.block
        table.add_row(
            f"{placed.offset:#07x}", block.name, f"{block.kind:#x}", str(block.version), f"{block.length:#x}"
        )
    return table


def _atomics(nic: Nic) -> Table:
    """Return the table of atomics. Operations with equal forms and datatypes share a row."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for op in Op:
        masks = tuple(nic.atomic_mask(form, op) for form in Form)
        groups.setdefault(masks, []).append(op.name)
    table = Table(title="atomics", show_lines=True)
    for title in ("operations", "forms", "datatypes"):
        table.add_column(title, overflow="fold")
    for masks, names in groups.items():
        by_datatypes: dict[int, list[str]] = {}
        for form, mask in zip(Form, masks, strict=True):
            if mask:
                by_datatypes.setdefault(mask, []).append(form.value)
        for mask, forms in by_datatypes.items():
            datatypes = [datatype.name for datatype in Datatype if mask >> datatype & 1]
            table.add_row(_words(names), " ".join(forms), _words(datatypes))
    return table


def _words(names: list[str]) -> str:
    return " ".join(name.removeprefix("FI_") for name in names)


def _facts(nic: Nic) -> dict[str, object]:
    parameters = nic.parameters
    names = ("data_width", "contexts", "keys", "peers", "window", "payload", "clock_hz")
    return {
        "name": nic.device.name,
        **{name: getattr(parameters, name) for name in names},
        "isolates_contexts": nic.device.isolates_contexts,
        "blocks": {placed.block.name: placed.offset for placed in nic.blocks},
        "atomics": {
            form.value: {
                op.name: [datatype.name for datatype in nic.supported_datatypes(form, op)]
                for op in Op
                if nic.atomic_mask(form, op)
            }
            for form in Form
        },
    }
