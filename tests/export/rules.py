"""The rules of a format that a folder breaks, without what its provenance says."""

from __future__ import annotations

from pathlib import Path

from rover_pipeline.datasets.table import DATASETS
from rover_pipeline.export.look import format_problems


def problems(name: str, folder: Path) -> list[str]:
    """What `check` finds in a dataset of a format."""
    return list(format_problems(DATASETS[name], folder))
