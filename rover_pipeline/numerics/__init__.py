"""What several fields of maths share: compiled kernels, and look-ups in sorted arrays."""
