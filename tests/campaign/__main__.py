"""`python -m tests.campaign NAME ...`: a campaign that is too long for the test suite."""

from __future__ import annotations

import importlib
import sys

if __name__ == "__main__":
    importlib.import_module(f"tests.campaign.{sys.argv[1]}").main(sys.argv[2:])
