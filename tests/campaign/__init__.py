"""Campaigns: many recordings, faults and rigs, drawn by a seed, which tests are too short for."""

import rover_pipeline  # noqa: F401  # before NumPy, so that campaigns compute as commands do, without AVX-512
