"""Robust statistics."""

from __future__ import annotations

#: Standard deviation over median absolute deviation: 1 / Phi^-1(3/4), to four decimals. Noise: normal distribution.
MAD_TO_SD = 1.4826
