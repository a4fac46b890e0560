// Generated from amoeba_model.registers by python -m amoeba_model.generate; do not edit.
// Include it inside a module.

localparam AMOEBA_KEY_PROBES = 8;

// Return the slot of the key table that the NIC looks into at the given probe: 0 first, then 1 and so on, below
// AMOEBA_KEY_PROBES and below the table's size, which the register keys of the block device holds.
function [31:0] amoeba_key_slot;
    input [63:0] key;
    input [31:0] probe;
    input [31:0] table_size;
    amoeba_key_slot = ({16'd0, key[15:0] ^ key[31:16] ^ key[47:32] ^ key[63:48]} + probe)
        & 32'h0000ffff & (table_size - 32'd1);
endfunction
