"""The slots in which a key may lie, as functions in C and Verilog: ``key_slots`` of :mod:`amoeba_model.registers`."""

from collections.abc import Iterator

from amoeba_model.generate.sources import notice
from amoeba_model.registers import KEY_PROBES

__all__ = ["c_key_slot", "verilog_keys"]

_CONTRACT = (
    "Return the slot of the key table that the NIC looks into at the given probe: 0 first, then 1 and so on, below",
    "AMOEBA_KEY_PROBES and below the table's size, which the register keys of the block device holds.",
)


def c_key_slot() -> Iterator[str]:
    """Return the lines of the function in ``amoeba.h``."""
    yield from (f"{start} {line}{end}" for start, line, end in zip(("/*", "  "), _CONTRACT, ("", " */"), strict=True))
    yield "static inline uint32_t amoeba_key_slot(uint64_t key, uint32_t probe, uint32_t table_size) {"
    yield "    const uint64_t folded = key ^ key >> 16 ^ key >> 32 ^ key >> 48;"
    yield "    return (uint32_t)(folded + probe) & 0xffff & (table_size - 1);"
    yield "}"


def verilog_keys() -> str:
    """Return the text of ``amoeba_keys.vh``, to be included in a module: the same function in Verilog-2001."""
    lines = [
        f"// {notice('registers')}",
        "// Include it inside a module.",
        "",
        f"localparam AMOEBA_KEY_PROBES = {KEY_PROBES};",
        "",
        *(f"// {line}" for line in _CONTRACT),
        "function [31:0] amoeba_key_slot;",
        "    input [63:0] key;",
        "    input [31:0] probe;",
        "    input [31:0] table_size;",
        "    amoeba_key_slot = ({16'd0, key[15:0] ^ key[31:16] ^ key[47:32] ^ key[63:48]} + probe)",
        "        & 32'h0000ffff & (table_size - 32'd1);",
        "endfunction",
    ]
    return "\n".join(lines) + "\n"
