"""`python -m tests.campaign NAME ...`: a campaign that is too long for the test suite. CONTRIBUTING.md lists them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    modules = (path for path in Path(__file__).parent.glob("[a-z]*.py") if "\ndef main(" in path.read_text())
    names = sorted(path.stem for path in modules)
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        sys.exit(f"usage: python -m tests.campaign NAME ...; NAME is one of {', '.join(names)}")
    importlib.import_module(f"tests.campaign.{sys.argv[1]}").main(sys.argv[2:])
