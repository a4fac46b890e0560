"""The calls of fi_rma(3), fi_atomic(3), fi_msg(3) and fi_tagged(3)."""
