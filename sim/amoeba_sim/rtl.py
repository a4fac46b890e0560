"""The NIC's RTL as a device: Verilated, in this process, with DMA straight into this process' memory."""

import ctypes
import weakref
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from amaranth.hdl import Elaboratable
from amoeba_model.device import DeviceClosedError, DeviceError, DmaFault
from amoeba_model.frames import Frame
from amoeba_model.grants import MemoryGrants
from amoeba_model.network import SimulatedDevice
from amoeba_model.parameters import NicParameters
from amoeba_model.tlp import LinkPacket, PacketKind
from amoeba_model.trace import BusEvent, BusState, Channel, Requester, Stage, TraceEvent

from amoeba_sim.verilate import Waves, nic_library, package_files

__all__ = ["HOST_LATENCY", "PcieLink", "RtlDevice", "open_rtl"]

HOST_LATENCY = 250
"""Cycles: a microsecond at 250 MHz, about what PCIe takes."""
_REGISTER_TIMEOUT = 100_000
"""Cycles that a register read may take, the writes queued before it included."""
_READ_TIMED_OUT = 4
_CHANNELS, _STATES = tuple(Channel), tuple(BusState)
_ALL_CONTEXTS = -1
_NO_BOUND = (1 << 64) - 1
_PACKET_SIZES = (128, 256, 512, 1024, 2048, 4096)
_SETTLED = 1000
"""Cycles without anything at its borders after which the NIC waits: what is inside comes to one of them earlier."""


class _Options(ctypes.Structure):
    _fields_ = [
        ("host_latency", ctypes.c_uint32),
        ("stall", ctypes.c_uint32),
        ("seed", ctypes.c_uint64),
        ("max_payload", ctypes.c_uint32),
        ("max_read_request", ctypes.c_uint32),
        ("read_completion_boundary", ctypes.c_uint32),
        ("extended_tags", ctypes.c_uint32),
    ]


@dataclass(frozen=True)
class PcieLink:
    """Host's settings of a NIC on PCI Express (Base Specification 7.5.3). Raises DeviceError for invalid ones.

    Sizes are in bytes: Max_Payload_Size and Max_Read_Request_Size, powers of two from 128 to 4,096; the Read
    Completion Boundary, 64 or 128.
    """

    max_payload: int = 256
    max_read_request: int = 512
    read_completion_boundary: int = 64
    extended_tags: bool = True

    def __post_init__(self) -> None:
        for name in ("max_payload", "max_read_request"):
            if getattr(self, name) not in _PACKET_SIZES:
                raise DeviceError(f"{name} is one of {_PACKET_SIZES} bytes, got {getattr(self, name)}")
        if self.read_completion_boundary not in (64, 128):
            raise DeviceError(f"read_completion_boundary is 64 or 128 bytes, got {self.read_completion_boundary}")


class _Fault(ctypes.Structure):
    _fields_ = [
        ("address", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("write", ctypes.c_uint32),
        ("requester", ctypes.c_uint32),
        ("context", ctypes.c_int32),
    ]


class _TraceEvent(ctypes.Structure):
    _fields_ = [
        ("cycle", ctypes.c_uint64),
        ("data", ctypes.c_uint64),
        ("stage", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class _BusEvent(ctypes.Structure):
    _fields_ = [("cycle", ctypes.c_uint64), ("channel", ctypes.c_uint32), ("state", ctypes.c_uint32)]


class _Packet(ctypes.Structure):
    _fields_ = [
        ("cycle", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("data", ctypes.c_uint64),
        ("size", ctypes.c_uint32),
        ("kind", ctypes.c_uint32),
        ("tag", ctypes.c_uint32),
        ("user", ctypes.c_uint32),
        ("status", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


@cache
def _load(path: Path) -> ctypes.CDLL:
    """Load the library's functions, typed as ``sim/harness/nic.h`` declares them."""
    library = ctypes.CDLL(str(path))
    nic, u32, u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
    pointer, string, integer = ctypes.POINTER, ctypes.c_char_p, ctypes.c_int
    declarations = {
        "data_width": (u32,),
        "bar_bits": (u32,),
        "stage_count": (u32,),
        "stage_name": (string, u32),
        "create": (nic, pointer(_Options)),
        "destroy": (None, nic),
        "reset": (None, nic),
        "function_reset": (None, nic),
        "cycles": (u64, nic),
        "last_activity": (u64, nic),
        "run_until": (integer, nic, u64),
        "error": (string, nic),
        "bar_write": (None, nic, u32, u32),
        "bar_read": (integer, nic, u32, pointer(u32), u64),
        "take_refused_write": (integer, nic, pointer(u32), pointer(u32)),
        "grant": (None, nic, u64, u64, integer, u64, integer),
        "revoke": (integer, nic, u64, u64, integer),
        "take_fault": (integer, nic, pointer(_Fault)),
        "deliver": (None, nic, string, u32, u64),
        "take_frame": (ctypes.c_void_p, nic, pointer(u32), pointer(u64)),
        "pause_transmission": (None, nic, u64, integer),
        "bound_reception": (None, nic, u64, u64, u64),
        "take_pause": (integer, nic, pointer(u64), pointer(integer)),
        "overflowed": (u64, nic),
        "take_interrupts": (u64, nic),
        "trace_enable": (None, nic, integer),
        "take_trace": (pointer(_TraceEvent), nic, pointer(u64)),
        "take_bus_events": (pointer(_BusEvent), nic, pointer(u64)),
        "take_packets": (pointer(_Packet), nic, pointer(u64)),
        "waves_start": (integer, nic, string),
        "waves_stop": (None, nic),
    }
    for name, (result, *arguments) in declarations.items():
        function = getattr(library, f"amoeba_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class RtlDevice(SimulatedDevice):
    """A NIC simulated from its RTL.

    Cycles run only inside :meth:`run_until` (which :meth:`advance` and the network call) and :meth:`read`. A
    write is queued and happens, in order with everything else on the register bus, as cycles run.

    Parameters
    ----------
    library : Path
        Library that :func:`amoeba_sim.verilate.build_nic` returned.
    name : str
        Shown to people.
    host_latency : int
        Cycles from the transfer of a read's address to its first data, and from a write's last data to its
        response; at least 1.
    stall : float
        Chance, 0 to below 1, that the host bus, the link or the register bus withholds a handshake in a cycle.
    seed : int
        Seed of these stalls: equal seeds give equal runs.
    trace : bool
        Whether :meth:`trace_events` records from the start.
    link : PcieLink, optional
        Of a NIC on PCI Express, whose transactions do not tell contexts apart.

    Raises
    ------
    DeviceError
        From any call, if the RTL breaks a rule of its buses (the message says in which cycle, and how), or for
        a bad argument.
    DeviceClosedError
        From any call after :meth:`close`.
    """

    def __init__(
        self,
        library: Path,
        *,
        name: str = "rtl",
        host_latency: int = HOST_LATENCY,
        stall: float = 0.0,
        seed: int = 0,
        trace: bool = False,
        link: PcieLink | None = None,
    ) -> None:
        super().__init__()
        if host_latency < 1:
            raise DeviceError(f"host memory needs a latency of at least one cycle, got {host_latency}")
        if not 0 <= stall < 1:
            raise DeviceError(f"a chance of stalling lies between 0 and 1, 1 excluded, got {stall}")
        self._library = _load(library)
        self._name = name
        self._stages = [self._stage(index) for index in range(self._library.amoeba_stage_count())]
        self._bar_size = 1 << self._library.amoeba_bar_bits()
        self._isolates = link is None
        self._grants = MemoryGrants()
        options = _Options(host_latency, int(stall * 256), seed, *astuple(link or PcieLink()))
        self._nic = self._library.amoeba_create(ctypes.byref(options))
        self._finalizer = weakref.finalize(self, self._library.amoeba_destroy, self._nic)
        self._tracing = trace
        self._library.amoeba_trace_enable(self._nic, trace)

    def _stage(self, index: int) -> Stage:
        name = self._library.amoeba_stage_name(index).decode()
        try:
            return Stage[name.upper()]
        except KeyError:
            raise DeviceError(f"expected a trace stage of amoeba_model.trace.Stage, got {name!r}") from None

    @property
    def _open(self) -> int:
        """The instance's handle."""
        if not self._finalizer.alive:
            raise DeviceClosedError(f"{self._name} is closed")
        return self._nic

    @property
    def name(self) -> str:
        return self._name

    @property
    def on_pcie(self) -> bool:
        """Whether its host speaks transaction layer packets with it, not AXI."""
        return not self._isolates

    @property
    def data_width(self) -> int:
        """Bits per beat of the host bus and the link."""
        return self._library.amoeba_data_width()

    def _check_offset(self, offset: int) -> None:
        if offset % 4 or not 0 <= offset < self._bar_size:
            raise DeviceError(f"expected a multiple of 4 below {self._bar_size:#x} as offset, got {offset:#x}")

    def _check_refused_writes(self) -> None:
        offset, response = ctypes.c_uint32(), ctypes.c_uint32()
        if self._library.amoeba_take_refused_write(self._open, ctypes.byref(offset), ctypes.byref(response)):
            raise DeviceError(f"an earlier write to register offset {offset.value:#x} was refused by the NIC")

    def _check_failure(self, status: int) -> None:
        if status < 0:
            raise DeviceError(f"{self._name}: {self._library.amoeba_error(self._nic).decode()}")

    def read(self, offset: int) -> int:
        """Read one 32-bit register, running cycles until the answer.

        Raises DeviceError on an unaligned or outside offset, if the NIC refuses the access or an earlier
        write, or if it gives no answer.
        """
        handle = self._open
        self._check_offset(offset)
        value = ctypes.c_uint32()
        status = self._library.amoeba_bar_read(handle, offset, ctypes.byref(value), _REGISTER_TIMEOUT)
        self._check_failure(status)
        if status == _READ_TIMED_OUT:
            raise DeviceError(f"no answer from register offset {offset:#x} in {_REGISTER_TIMEOUT} cycles")
        self._check_refused_writes()
        if status:
            raise DeviceError(f"the read of register offset {offset:#x} was refused by the NIC")
        return value.value

    def write(self, offset: int, value: int) -> None:
        """Queue the write of one 32-bit register.

        Raises DeviceError on an unaligned or outside offset, a value that does not fit 32 bits, or if the NIC
        refused an earlier write.
        """
        handle = self._open
        self._check_offset(offset)
        if not 0 <= value < 1 << 32:
            raise DeviceError(f"expected a value of 32 bits for register offset {offset:#x}, got {value:#x}")
        self._check_refused_writes()
        self._library.amoeba_bar_write(handle, offset, value)

    def grant(
        self,
        iova: int,
        length: int,
        *,
        writable: bool = True,
        host_address: int | None = None,
        context: int | None = None,
    ) -> None:
        handle = self._open
        context = context if self._isolates else None
        self._grants.add(iova, length, writable, host_address=host_address, context=context)
        host = iova if host_address is None else host_address
        self._library.amoeba_grant(handle, iova, length, writable, host, _harness_context(context))

    @property
    def memory(self) -> MemoryGrants:
        return self._grants

    @property
    def runs_apart(self) -> bool:
        return True

    def revoke(self, iova: int, length: int, *, context: int | None = None) -> None:
        handle = self._open
        context = context if self._isolates else None
        self._grants.remove(iova, length, context)
        self._library.amoeba_revoke(handle, iova, length, _harness_context(context))

    @property
    def isolates_contexts(self) -> bool:
        return self._isolates

    def advance(self) -> None:
        self._open  # noqa: B018  a closed device in a network must not move it
        super().advance()

    @property
    def cycles(self) -> int:
        return self._library.amoeba_cycles(self._open)

    def run_until(self, cycle: int) -> None:
        self._check_failure(self._library.amoeba_run_until(self._open, max(cycle, 0)))

    def reset(self) -> None:
        """Reset the NIC, its buses and its clock; frames and events not taken are lost, grants stay."""
        self._library.amoeba_reset(self._open)

    def function_reset(self) -> None:
        self._library.amoeba_function_reset(self._open)

    @property
    def last_activity(self) -> int:
        return self._library.amoeba_last_activity(self._open)

    @property
    def idle(self) -> bool:
        return self.cycles - self.last_activity > _SETTLED

    def deliver(self, frame: bytes, cycle: int) -> None:
        handle = self._open
        if not frame:
            raise DeviceError("a frame has at least one byte, got none")
        self._library.amoeba_deliver(handle, bytes(frame), len(frame), cycle)

    def take_frames(self) -> list[Frame]:
        handle = self._open
        size, cycle = ctypes.c_uint32(), ctypes.c_uint64()
        frames = []
        while address := self._library.amoeba_take_frame(handle, ctypes.byref(size), ctypes.byref(cycle)):
            frames.append(Frame(cycle.value, ctypes.string_at(address, size.value)))
        return frames

    def pause_transmission(self, cycle: int, stop: bool) -> None:
        self._library.amoeba_pause_transmission(self._open, cycle, stop)

    def bound_reception(self, size: int | None, *, pause: bool = False) -> None:
        if size is not None and size < 1:
            raise DeviceError(f"a MAC holds at least one byte, got {size}")
        space = _NO_BOUND if size is None else size
        stop_above, go_at = (space // 2, space // 4) if pause and size is not None else (_NO_BOUND, _NO_BOUND)
        self._library.amoeba_bound_reception(self._open, space, stop_above, go_at)

    def take_pauses(self) -> list[tuple[int, bool]]:
        handle = self._open
        cycle, stop = ctypes.c_uint64(), ctypes.c_int()
        told = []
        while self._library.amoeba_take_pause(handle, ctypes.byref(cycle), ctypes.byref(stop)):
            told.append((cycle.value, bool(stop.value)))
        return told

    @property
    def overflowed(self) -> int:
        return self._library.amoeba_overflowed(self._open)

    def take_interrupts(self) -> int:
        return self._library.amoeba_take_interrupts(self._open)

    def faults(self) -> list[DmaFault]:
        handle = self._open
        fault = _Fault()
        faults = []
        while self._library.amoeba_take_fault(handle, ctypes.byref(fault)):
            requester = _requester_name(fault.requester)
            context = None if fault.context == _ALL_CONTEXTS else fault.context
            faults.append(DmaFault(fault.address, fault.size, bool(fault.write), requester, context))
        return faults

    @property
    def tracing(self) -> bool:
        return self._tracing

    @tracing.setter
    def tracing(self, enabled: bool) -> None:
        self._library.amoeba_trace_enable(self._open, enabled)
        self._tracing = enabled

    def trace_events(self) -> list[TraceEvent]:
        count = ctypes.c_uint64()
        events = self._library.amoeba_take_trace(self._open, ctypes.byref(count))
        recorded = [
            TraceEvent.from_bits(event.cycle, self._stages[event.stage], event.data)
            for event in events[: count.value]
        ]
        return sorted(recorded, key=lambda event: (event.cycle, event.stage))

    def bus_events(self) -> list[BusEvent]:
        count = ctypes.c_uint64()
        events = self._library.amoeba_take_bus_events(self._open, ctypes.byref(count))
        return [
            BusEvent(event.cycle, _CHANNELS[event.channel], _STATES[event.state]) for event in events[: count.value]
        ]

    def link_packets(self) -> list[LinkPacket]:
        count = ctypes.c_uint64()
        packets = self._library.amoeba_take_packets(self._open, ctypes.byref(count))
        return [
            LinkPacket(
                one.cycle, PacketKind(one.kind), one.address, one.size, one.data, one.tag, one.user, one.status
            )
            for one in packets[: count.value]
        ]

    def start_waves(self, path: str | Path) -> None:
        """Write a waveform from now on, VCD or FST as the library was built; one time unit per half cycle.

        Raises DeviceError if the file cannot be written, or the library was built without waveforms.
        """
        if self._library.amoeba_waves_start(self._open, str(path).encode()) != 0:
            raise DeviceError(f"no waveform to {path}: the folder is not writable, or the build has no waveforms")

    def stop_waves(self) -> None:
        """Finish the waveform file, if one is being written."""
        self._library.amoeba_waves_stop(self._open)

    def close(self) -> None:
        super().close()
        self._finalizer()

    def forked(self) -> None:
        # not destroyed, which would wait for threads of the simulation that a child does not have
        self._finalizer.detach()


def _harness_context(context: int | None) -> int:
    return _ALL_CONTEXTS if context is None else context


def _requester_name(number: int) -> str:
    try:
        return Requester(number).name
    except ValueError:
        return f"requester {number}"


def open_rtl(
    parameters: NicParameters | None = None,
    *,
    host: Literal["axi", "pcie"] = "axi",
    link: PcieLink | None = None,
    host_latency: int = HOST_LATENCY,
    stall: float = 0.0,
    seed: int = 0,
    trace: bool = False,
    waves: Waves | None = None,
) -> RtlDevice:
    """Build the NIC of these parameters, unless it was built before, and open it.

    With ``host="pcie"`` it is the NIC on PCI Express, and the host speaks transaction layer packets with it.
    ``waves``, "vcd" or "fst", selects a build that can write such waveforms (:meth:`RtlDevice.start_waves`); the
    other arguments are :class:`RtlDevice`'s. Raises :class:`amoeba_sim.verilate.BuildError` if the NIC cannot be
    built, and DeviceError for a bad argument.
    """
    parameters = parameters or NicParameters()
    if host not in ("axi", "pcie"):
        raise DeviceError(f"expected axi or pcie as host, got {host!r}")
    if link is not None and host != "pcie":
        raise DeviceError(f"a NIC on {host} has no PCI Express link, got {link}")

    def on_axi() -> Elaboratable:
        from amoeba_hw.nic import Nic

        return Nic(parameters, memory_clock=True)

    def on_pcie() -> Elaboratable:
        from amoeba_hw.pcie.nic import PcieNic

        return PcieNic(parameters, memory_clock=True)

    make: Callable[[], Elaboratable] = on_pcie if host == "pcie" else on_axi
    sources = package_files("amoeba_hw", "amoeba_model")
    library = nic_library(make, f"{host} {parameters!r}", sources, waves=waves)
    if host == "pcie" and link is None:
        link = PcieLink()
    bus = " on PCIe" if host == "pcie" else ""
    name = f"rtl{bus} ({parameters.data_width}-bit, {parameters.contexts} contexts)"
    return RtlDevice(library, name=name, host_latency=host_latency, stall=stall, seed=seed, trace=trace, link=link)
