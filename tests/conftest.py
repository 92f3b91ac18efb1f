"""Where real captures are: ROVER_PIPELINE_DATA, else ../shared/data beside the checkout."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

import rover_pipeline  # noqa: F401  # before NumPy, so that tests compute as commands do, without AVX-512

CHECKOUT = Path(__file__).parents[1]

# Tests start hundreds of processes. Without compiled modules on the disk, each of them compiles the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files are spread over processes as a whole, for their fixtures; those that take longest go first."""
    items.sort(key=lambda item: item.path.parent.name != "workflow")


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


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated recording of a few seconds."""
    from rover_pipeline.simulate.record import simulate

    trace = tmp_path_factory.mktemp("simulated") / "tiny"
    simulate(trace, preset="tiny", seed=1, threads=1)
    return trace


def with_truth_as_odometry(recording: Path, trace: Path) -> Path:
    """A copy of a simulated recording at `trace`, with the truth as its `_odom`."""
    shutil.copytree(recording, trace)
    shutil.copytree(trace / "_truth", trace / "_odom")
    return trace


@pytest.fixture(scope="session")
def drive(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with the truth as its `_odom`. Shared by tests: they only add virtual sensors to it."""
    return with_truth_as_odometry(tiny, tmp_path_factory.mktemp("drive") / "trace")
