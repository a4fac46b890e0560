"""The answering side of the NIC: sequence, checks, operands in; answers out."""
