"""Netlists of an FPGA's primitives, made runnable: Verilog that simulators read quickly, and the NIC as a device."""
