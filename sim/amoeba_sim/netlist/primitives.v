// Memories of Xilinx's 7 series as UG953 and UG473 describe them: what a netlist of synth_xilinx instantiates.
// LUTs, multiplexers, carry chains, registers and buffers are expressions, which netlist_verilog writes.

module RAM32M #(
    parameter [63:0] INIT_A = 0, INIT_B = 0, INIT_C = 0, INIT_D = 0
) (
    output [1:0] DOA, DOB, DOC, DOD,
    input [4:0] ADDRA, ADDRB, ADDRC, ADDRD,
    input [1:0] DIA, DIB, DIC, DID,
    input WCLK, WE
);
  reg [63:0] a = INIT_A, b = INIT_B, c = INIT_C, d = INIT_D;
  assign DOA = a[{ADDRA, 1'b0} +: 2];
  assign DOB = b[{ADDRB, 1'b0} +: 2];
  assign DOC = c[{ADDRC, 1'b0} +: 2];
  assign DOD = d[{ADDRD, 1'b0} +: 2];
  always @(posedge WCLK)
    if (WE) begin
      a[{ADDRD, 1'b0} +: 2] <= DIA;
      b[{ADDRD, 1'b0} +: 2] <= DIB;
      c[{ADDRD, 1'b0} +: 2] <= DIC;
      d[{ADDRD, 1'b0} +: 2] <= DID;
    end
endmodule

module RAM64M #(
    parameter [63:0] INIT_A = 0, INIT_B = 0, INIT_C = 0, INIT_D = 0
) (
    output DOA, DOB, DOC, DOD,
    input [5:0] ADDRA, ADDRB, ADDRC, ADDRD,
    input DIA, DIB, DIC, DID,
    input WCLK, WE
);
  reg [63:0] a = INIT_A, b = INIT_B, c = INIT_C, d = INIT_D;
  assign DOA = a[ADDRA];
  assign DOB = b[ADDRB];
  assign DOC = c[ADDRC];
  assign DOD = d[ADDRD];
  always @(posedge WCLK)
    if (WE) begin
      a[ADDRD] <= DIA;
      b[ADDRD] <= DIB;
      c[ADDRD] <= DIC;
      d[ADDRD] <= DID;
    end
endmodule

// RAM16X1D to RAM256X1D: one port writes and reads, the other reads. RAM16X1S to RAM256X1S have the former alone.
module dual_port_ram #(
    parameter BITS = 5,
    parameter [(1 << BITS) - 1:0] INIT = 0
) (
    output DPO, SPO,
    input D, WCLK, WE,
    input [BITS - 1:0] A, DPRA
);
  reg [(1 << BITS) - 1:0] rows = INIT;
  assign SPO = rows[A];
  assign DPO = rows[DPRA];
  always @(posedge WCLK) if (WE) rows[A] <= D;
endmodule

module SRL16E #(
    parameter [15:0] INIT = 0
) (
    output Q,
    input A0, A1, A2, A3, CE, CLK, D
);
  reg [15:0] bits = INIT;
  assign Q = bits[{A3, A2, A1, A0}];
  always @(posedge CLK) if (CE) bits <= {bits[14:0], D};
endmodule

module SRLC32E #(
    parameter [31:0] INIT = 0
) (
    output Q, Q31,
    input [4:0] A,
    input CE, CLK, D
);
  reg [31:0] bits = INIT;
  assign Q = bits[A];
  assign Q31 = bits[31];
  always @(posedge CLK) if (CE) bits <= {bits[30:0], D};
endmodule

// RAMB18E1 as a simple dual-port memory without output register: one port reads, the other one writes. Addresses count
// bits. Each byte has a ninth bit, its parity; rows of 1, 2 or 4 bits have none.
//
// If a row is read at the edge that writes it, UG473 promises its old content in READ_FIRST mode, and otherwise nothing:
// then this model inverts the content.
module block_ram #(
    parameter READ = 36, WRITE = 36, READ_FIRST = 0,
    parameter [35:0] FIRST = 0, RESET = 0,
    parameter [18431:0] INIT = 0
) (
    output reg [35:0] DO = FIRST,
    input [35:0] DI,
    input [13:0] RDADDR, WRADDR,
    input [3:0] WE,
    input RDCLK, WRCLK, RDEN, WREN, RST
);
  // Bits of data in a row, and in the wider of both.
  localparam [13:0] READS = READ < 9 ? READ : READ / 9 * 8, WRITES = WRITE < 9 ? WRITE : WRITE / 9 * 8;
  localparam [13:0] WIDER = READS > WRITES ? READS : WRITES;

  reg [8:0] bytes[0:2047];
  integer row;
  initial for (row = 0; row < 2048; row = row + 1) bytes[row] = INIT[9 * row +: 9];

  wire [10:0] from = RDADDR[13:3] & ~((READS - 14'd1) >> 3);
  wire [10:0] to = WRADDR[13:3] & ~((WRITES - 14'd1) >> 3);
  wire collides = !READ_FIRST && WREN && WE != 0 && ((RDADDR ^ WRADDR) & ~(WIDER - 14'd1)) == 0;
  reg [35:0] stored;
  integer i, j;
  always @* begin
    stored = 0;
    if (READ < 9) stored = (bytes[from] >> RDADDR[2:0]) & ((1 << READ) - 1);
    else for (i = 0; i < READ / 9; i = i + 1) stored[9 * i +: 9] = bytes[from + i];
  end
  always @(posedge RDCLK) if (RDEN) DO <= RST ? RESET : collides ? ~stored : stored;
  always @(posedge WRCLK)
    if (WREN) begin
      if (WRITE < 9) begin
        for (j = 0; j < WRITE; j = j + 1) if (WE != 0) bytes[to][WRADDR[2:0] + j] <= DI[j];
      end else begin
        for (j = 0; j < WRITE / 9; j = j + 1) if (WE[j]) bytes[to + j] <= DI[9 * j +: 9];
      end
    end
endmodule
