"""Compiled kernels, threads, SIMD, progress bars and table conversion: nothing of the method.
Imports exceptions and files only."""
