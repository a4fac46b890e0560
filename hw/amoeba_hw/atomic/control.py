"""The pre-decoded controls of one beat, and where elements and their parts lie in it."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data
from amoeba_model.atomic.formats import float_format, is_complex, is_float, is_signed
from amoeba_model.opcodes import Datatype, Op

__all__ = [
    "COMPONENTS",
    "EFFECTS",
    "ELEMENTS",
    "FORMATS",
    "Control",
    "Span",
    "check_datatypes",
    "component_of",
    "element_of",
    "is_pipelined",
    "restrict",
    "spread",
    "starts",
]


@dataclass(frozen=True)
class Span:
    """Where values of one kind lie in a beat: one per ``stride`` bytes, their top byte at offset ``last``."""

    stride: int
    last: int

    def top(self, byte: int) -> int:
        """Position of the top byte of the value that ``byte`` belongs to."""
        return byte - byte % self.stride + self.last

    def ends_at(self, byte: int) -> bool:
        """Whether ``byte`` is the top byte of a value."""
        return byte % self.stride == self.last


ELEMENTS = {
    "b1": Span(1, 0),
    "b2": Span(2, 1),
    "b4": Span(4, 3),
    "b8": Span(8, 7),
    "b16": Span(16, 15),
    "x87": Span(16, 9),
    "x87_pair": Span(32, 25),
}
"""Every kind of element. The 80-bit ones end at their last byte of value, not of padding."""

PARTS = ("b8", "b16", "x87_pair")
"""The kinds of element that may be complex numbers, of two parts of half the size."""

COMPONENTS = {name: span for name, span in ELEMENTS.items() if name != "x87_pair"}
"""Every kind of number: an element, or one of the two parts of a complex one."""

FORMATS = {float_format(datatype).name: float_format(datatype) for datatype in Datatype if is_float(datatype)}
"""Every floating-point format by its name."""


# Effect of an operation on a beat: the members of Control that it sets. An operand that replaces the target
# on a condition keeps the target otherwise, hence `keep` next to every condition.
EFFECTS = {
    Op.FI_MIN: ("keep", "on_greater"),
    Op.FI_MAX: ("keep", "on_less"),
    Op.FI_SUM: ("add",),
    Op.FI_DIFF: ("add", "subtract"),
    Op.FI_PROD: ("multiply",),
    Op.FI_LOR: ("truth", "on_both", "on_one"),
    Op.FI_LAND: ("truth", "on_both"),
    Op.FI_LXOR: ("truth", "on_one"),
    Op.FI_BOR: ("masked", "keep", "merge", "merge_all"),
    Op.FI_BAND: ("masked",),
    Op.FI_BXOR: ("keep", "merge", "merge_all"),
    Op.FI_ATOMIC_READ: ("keep",),
    Op.FI_ATOMIC_WRITE: ("merge", "merge_all"),
    Op.FI_CSWAP: ("use_compare", "keep", "on_equal"),
    Op.FI_CSWAP_NE: ("use_compare", "keep", "on_greater", "on_less", "on_unordered"),
    Op.FI_CSWAP_LE: ("use_compare", "keep", "on_greater", "on_equal"),
    Op.FI_CSWAP_LT: ("use_compare", "keep", "on_greater"),
    Op.FI_CSWAP_GE: ("use_compare", "keep", "on_less", "on_equal"),
    Op.FI_CSWAP_GT: ("use_compare", "keep", "on_less"),
    Op.FI_MSWAP: ("use_compare", "masked", "keep", "merge"),
}


def component_of(datatype: Datatype) -> str:
    """Name in ``COMPONENTS`` of the datatype's numbers."""
    if is_float(datatype) and float_format(datatype).explicit_integer:
        return "x87"
    return f"b{datatype.size // (2 if is_complex(datatype) else 1)}"


def element_of(datatype: Datatype) -> str:
    """Name in ``ELEMENTS`` of the datatype's elements."""
    if component_of(datatype) == "x87":
        return "x87_pair" if is_complex(datatype) else "x87"
    return f"b{datatype.size}"


def is_pipelined(op: Op, datatype: Datatype, single_cycle_products: bool) -> bool:
    """Whether the ArithmeticPipeline executes a cell, and not FastLanes.

    Floating-point operations that round take the pipeline, and so do products of integers unless the build multiplies
    them within one cycle.
    """
    if is_float(datatype):
        return op in (Op.FI_SUM, Op.FI_DIFF, Op.FI_PROD)
    return op is Op.FI_PROD and not single_cycle_products


def check_datatypes(data_width: int, datatypes) -> None:
    """Refuse a beat width or datatypes that the lanes cannot hold.

    Raises
    ------
    ValueError
        The width is not 128, 256 or 512, or an element is wider than a beat.
    """
    if data_width not in (128, 256, 512):
        raise ValueError(f"data_width must be 128, 256 or 512, got {data_width}")
    for datatype in datatypes:
        if 8 * datatype.size > data_width:
            raise ValueError(
                f"{datatype.name} takes {8 * datatype.size} bits and does not fit a beat of {data_width}"
            )


def _flags(names) -> data.StructLayout:
    return data.StructLayout(dict.fromkeys(names, 1))


class Control(data.Struct):
    """Controls of an operation for the lanes and the pipeline, decoded one cycle before their use.

    Members
    -------
    supported
        The cell exists and this build has it. All other members are meaningless without it.
    pipelined
        The ArithmeticPipeline executes the cell; otherwise FastLanes does.
    component, element
        One-hot: the kind of number, and of element.
    starts
        Bit k: a number begins at every byte whose position is a multiple of 2**k.
    float_format
        One-hot: the floating-point format; none for integers and for comparisons by bits.
    floating, signed, complex
        Kind of number; ``floating`` and ``signed`` never both. ``complex`` also holds for comparisons by bits.
    add, subtract
        The result is target + operand, or target - operand.
    multiply
        The result is target * operand.
    use_compare
        The target is compared with, and masked by, the compare operand instead of the operand.
    masked, keep
        The target bits that stay: all (``keep``), those where the (compare) operand has ones (``masked``), or
        those where it has zeros (both).
    merge, merge_all
        The operand is exclusive-ored to what stays: where the compare operand has ones, or everywhere.
    on_greater, on_equal, on_less, on_unordered
        The operand replaces the target if the target is so related to the (compare) operand.
    truth
        The result is one or zero of the datatype, from the truth of target and operand.
    on_both, on_one
        The result of ``truth`` if both are true, and if exactly one is.
    """

    supported: 1
    pipelined: 1
    component: _flags(COMPONENTS)
    element: _flags(ELEMENTS)
    starts: 5
    float_format: _flags(FORMATS)
    floating: 1
    signed: 1
    complex: 1
    add: 1
    subtract: 1
    multiply: 1
    use_compare: 1
    masked: 1
    keep: 1
    merge: 1
    merge_all: 1
    on_greater: 1
    on_equal: 1
    on_less: 1
    on_unordered: 1
    truth: 1
    on_both: 1
    on_one: 1


def restrict(m: Module, control: data.View, datatypes, ops) -> data.View:
    """Restrict the controls to a build's datatypes and operations: those that they never set are constant zero.

    Synthesis removes the logic behind constants, so the units describe the full matrix only.
    """
    used = {
        "component": {component_of(datatype) for datatype in datatypes},
        "element": {element_of(datatype) for datatype in datatypes},
        "float_format": {float_format(datatype).name for datatype in datatypes if is_float(datatype)},
    }
    flags = {
        "floating": any(is_float(datatype) for datatype in datatypes),
        "complex": any(is_complex(datatype) for datatype in datatypes),
        "signed": any(is_signed(datatype) for datatype in datatypes),
    }
    effects = {effect for effects in EFFECTS.values() for effect in effects}
    flags |= {effect: any(effect in EFFECTS[op] for op in ops) for effect in effects}
    bits = []
    for name, field in data.Layout.cast(control.shape()):
        value = control[name]
        if name in used:
            for member, _ in field.shape:
                bits.append(value[member] if member in used[name] else Const(0))
        elif flags.get(name, True):
            bits.append(Value.cast(value))
        else:
            bits.append(Const(0))
    restricted = Signal(Control, name="restricted")
    m.d.comb += restricted.eq(Cat(bits))
    return restricted


def starts(control: data.View, lanes: int) -> Value:
    """One bit per byte: a number begins here. Padding counts as a number of its own."""
    bits = [Const(1)]
    for byte in range(1, lanes):
        alignment = min((byte & -byte).bit_length() - 1, 4)
        bits.append(control.starts[alignment] | (control.component.x87 if byte % 16 == 10 else 0))
    return Cat(bits)


def spread(control: data.View, flags: Value) -> Value:
    """To every byte the flag of the element it belongs to, or, if it has two parts, of either of them.

    A flag that lies neither at the top byte of an element nor of a part of one must be zero.
    """
    spread = []
    for byte in range(len(flags)):
        sources = {}
        for name, span in ELEMENTS.items():
            top = span.top(byte)
            if top < len(flags):
                sources.setdefault(top, []).append(control.element[name])
                if name in PARTS:
                    sources.setdefault(top - span.stride // 2, []).append(control.element[name])
        spread.append(Cat(Cat(kinds).any() & flags[source] for source, kinds in sources.items()).any())
    return Cat(spread)
