"""The arithmetic of the atomic unit: decoding, the single-cycle lanes and the floating-point pipeline."""
