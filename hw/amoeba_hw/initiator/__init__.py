"""The initiator: from a doorbell to request frames, and from their answers to completions."""
