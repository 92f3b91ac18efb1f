"""Fast starts: what is hidden from an import is hidden there only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rover_pipeline.imports import empty, without
from tests.kit import environment

RADAR = """
import sys
import numpy as np
from rover_pipeline.radar import angles, detect, kernels, points, spectrum

for heavy in ("scipy.linalg", "scipy.fftpack", "dask.array", "cv2"):
    assert heavy not in sys.modules, heavy

import numba

@numba.njit
def product(a, b):
    return a @ b

assert (product(np.eye(3), np.full((3, 3), 2.0)) == 2 * np.eye(3).sum(axis=0)).all()
import scipy.linalg.cython_blas
import scipy.fftpack
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a module that can be imported and is not."""
    (tmp_path / "rarely_used.py").write_text("ANSWER = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "rarely_used", raising=False)
    return "rarely_used"


def test_a_module_that_is_left_out_cannot_be_imported_until_afterwards(module: str) -> None:
    with without(module), pytest.raises(ImportError):
        __import__(module)
    assert __import__(module).ANSWER == 42
    with without(module):
        assert __import__(module).ANSWER == 42, "one that is loaded stays"


def test_an_empty_module_stands_in_for_the_true_one_until_afterwards(module: str) -> None:
    with empty(module):
        assert not hasattr(__import__(module), "ANSWER")
    assert __import__(module).ANSWER == 42


def test_the_radar_loads_no_libraries_that_it_does_not_need_and_breaks_none() -> None:
    done = subprocess.run([sys.executable, "-c", RADAR], env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
