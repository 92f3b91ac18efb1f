"""Where real captures are: ROVER_PIPELINE_DATA, else ../shared/data beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def captures() -> Path:
    """The folder of real captures. Tests that need it are skipped where it is absent, but never in CI."""
    folder = Path(os.environ.get("ROVER_PIPELINE_DATA", CHECKOUT.parent / "shared" / "data"))
    if not folder.is_dir():
        reason = f"no real captures at {folder}; set ROVER_PIPELINE_DATA"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder
