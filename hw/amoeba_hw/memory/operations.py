"""Records inside the memory engine: operations on one line each, their commits and their results."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amoeba_model.parameters import NicParameters
from amoeba_model.trace import NO_CONTEXT

__all__ = [
    "LINES_UNORDERED",
    "LINE_ANSWER",
    "byte_rotate_left",
    "commit_of",
    "context_bits",
    "entries",
    "line_access",
    "line_address_bits",
    "line_operands",
    "line_operation",
    "line_result",
    "merge",
    "operations_in_flight",
    "operations_queued",
    "queued_operation",
    "table_sets",
    "table_ways",
    "thermometer",
    "whole_context",
    "write_counter_bits",
]

LINES_UNORDERED = 4
"""Lines taken to be clean, on their way to their place in the order of host writes, at most."""

LINE_ANSWER = data.StructLayout(
    {
        "present": 1,  # the host has answered the read of a line
        "refused": 1,  # and refused it
    }
)


def entries(parameters: NicParameters) -> int:
    """Entries of the line table: twice the lines on their way from the host, so that nearly every line finds one."""
    return 2 * parameters.lines


def table_ways(parameters: NicParameters) -> int:
    """Entries in which a line may be: of few lines, four are as good as eight."""
    return min(parameters.lines, 4 if parameters.lines < 128 else 8)


def table_sets(parameters: NicParameters) -> int:
    """Return the number of sets of the line table. The low bits of an entry say its set, the others its way."""
    return entries(parameters) // table_ways(parameters)


def operations_queued(parameters: NicParameters) -> int:
    """Return the depth of the operation queue: operations on all lines on their way, and as many that hit them."""
    return 2 * parameters.lines


def operations_in_flight(parameters: NicParameters) -> int:
    """More operations than the queue, the executor and the pipeline can hold together."""
    return operations_queued(parameters) + 32


def write_counter_bits(parameters: NicParameters) -> int:
    """Bits of the counters of lines queued for writing and written: 8 more than the number of an entry."""
    return (entries(parameters) - 1).bit_length() + 8


def line_address_bits(parameters: NicParameters) -> int:
    """Bits of an address within a line."""
    return parameters.beat_bytes.bit_length() - 1


def context_bits(parameters: NicParameters) -> int:
    """Bits of whose line it is: the number of a context, or NO_CONTEXT cut to them, which is none's."""
    return parameters.contexts.bit_length()


def whole_context(context: Value) -> Value:
    """Restore the number of a context, or NO_CONTEXT, from its lower bits."""
    return Mux(context.all(), NO_CONTEXT, context)


def _operation(parameters: NicParameters, where: dict) -> data.StructLayout:
    offset_bits = line_address_bits(parameters)
    return data.StructLayout(
        where
        | {
            "touches": 1,  # works on a line; otherwise neither the line nor the strobe mean anything
            "fetches": 1,  # needs the line's old bytes
            "writes": 1,
            "gather": 1,  # step of a misaligned element: copies a part of it from a line
            "compute": 1,  # step of a misaligned element: executes the operation on it
            "scatter": 1,  # step of a misaligned element: copies a part of it to a line
            "starts_element": 1,  # with gather: the first part
            "settle": 1,  # must not begin before the steps of misaligned elements before it have ended
            "half": 1,  # which half of an element wider than a beat, if its datatype is that wide
            "turn": offset_bits,  # with gather: bytes that the line turns left to get in place in the element
            "op": 5,
            "datatype": 5,
            "cswap_by_bits": 1,
            "atomic": 1,
            "returns_data": 1,  # the old bytes go to the result
            "result_last": 1,  # the last one of its request with bytes of the result
            "finishes": 1,  # the last one of its request
            "request_writes": 1,  # its request writes memory
            "offset": offset_bits,  # first byte
            "count": offset_bits + 1,  # number of bytes
            "strobe": parameters.beat_bytes,
            "pdc": 16,
            "psn": 32,
        }
    )


def line_access(parameters: NicParameters) -> data.StructLayout:
    """Return the layout of an operation for the line table: its line, and the purpose of its entry."""
    return data.StructLayout(
        {
            "line": 64 - line_address_bits(parameters),
            "context": context_bits(parameters),
            "touches": 1,
            "fetches": 1,
            "pdc": 16,
        }
    )


def line_operation(parameters: NicParameters) -> data.StructLayout:
    """Return the layout of an operation on (a part of) a line.

    An operation overtakes its line_access: nobody needs it until it is executed, and so many bits are slow to stop.
    """
    return _operation(parameters, {})


def line_operands(parameters: NicParameters) -> data.StructLayout:
    """Return the layout of an operation's operands, at their place in the line; they are needed a cycle later."""
    return data.StructLayout({"operand": parameters.data_width, "compare": parameters.data_width})


def queued_operation(parameters: NicParameters) -> data.StructLayout:
    """Return the layout of an operation, together with the entry of the line table in which its line is."""
    return _operation(parameters, {"entry": range(entries(parameters))})


def commit_of(parameters: NicParameters) -> data.StructLayout:
    """Return the layout of the end of an operation: with bytes to store if any ``strobe`` is set. Never waits."""
    return data.StructLayout(
        {
            "valid": 1,
            "entry": range(entries(parameters)),
            "strobe": parameters.beat_bytes,
            "data": parameters.data_width,
        }
    )


def line_result(parameters: NicParameters) -> data.StructLayout:
    """Return the layout of an old line, of which ``count`` bytes from ``offset`` belong to the result."""
    offset_bits = line_address_bits(parameters)
    return data.StructLayout(
        {
            "data": parameters.data_width,
            "offset": offset_bits,
            "count": offset_bits + 1,
            "last": 1,
            "error": 1,
        }
    )


def byte_rotate_left(m: Module, name: str, value: Value, amount: Value, unit: int = 8) -> Signal:
    """``value``, whose bytes (of ``unit`` bits) move up by ``amount`` places; those above the top come in below."""
    width = len(value)
    for bit in range(len(amount)):
        shift = unit << bit
        turned = Signal(width, name=f"{name}_turn_{1 << bit}")
        m.d.comb += turned.eq(Mux(amount[bit], Cat(value[width - shift :], value[: width - shift]), value))
        value = turned
    return value


def thermometer(m: Module, name: str, count: Value, length: int) -> Signal:
    """``length`` bits of which the lowest ``count`` are ones."""
    bits = Signal(length, name=name)
    m.d.comb += bits.eq(Cat(count > position for position in range(min(length, (1 << len(count)) - 1))))
    return bits


def merge(strobe: Value, new: Value, old: Value) -> Value:
    """Bytes of ``new`` where the strobe has ones, of ``old`` elsewhere. The arguments are signals."""
    return Cat(Mux(strobe[byte], new.word_select(byte, 8), old.word_select(byte, 8)) for byte in range(len(strobe)))
