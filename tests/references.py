"""Stored results of small recordings, with which the results of every version of a step are compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.format.provenance import versions
from rover_pipeline.table import TABLE

DIRECTORY = Path(__file__).parent / "reference"
#: Key of the libraries that a reference was made with.
_MADE_WITH = "made with"


def check_reference(sensor: str, arrays: Mapping[str, np.ndarray], tolerance: float | None = None) -> None:
    """Compare a result with the reference of its step's version, which is written if there is none.

    After a change on purpose raise the version of the step, delete the old file and run the test once.

    Integers must be the same. Floating-point numbers must be the same bit for bit when the reference was made with the
    same libraries. Other libraries round differently in the last bits, so that numbers are then compared to 1e-4,
    relative and absolute.

    Args:
        tolerance: absolute tolerance of floating-point numbers in their unit, whatever the reference was made with. It
            is for iterations, which amplify differences in the last bits.
    """
    path = DIRECTORY / f"{sensor}.v{TABLE[sensor].version}.npz"
    if not path.exists():
        np.savez_compressed(path, **arrays, **{_MADE_WITH: np.array(_made_with())})  # type: ignore[arg-type]
        pytest.fail(f"{path.name} did not exist and has been written; look at its numbers and commit it")
    with np.load(path) as reference:
        assert set(reference) == {*arrays, _MADE_WITH}
        same_rounding = str(reference[_MADE_WITH]) == _made_with()
        for name, array in arrays.items():
            expected = reference[name]
            assert (array.dtype, array.shape) == (expected.dtype, expected.shape), name
            if array.dtype.kind == "f" and tolerance is not None:
                np.testing.assert_allclose(array, expected, rtol=0, atol=tolerance, err_msg=name)
            elif array.dtype.kind == "f" and not same_rounding:
                np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-4, err_msg=name)
            elif array.tobytes() != expected.tobytes():
                np.testing.assert_array_equal(array, expected, err_msg=name)
                pytest.fail(f"{name}: bits of NaN or of the sign of zero differ")


def _made_with() -> str:
    """Versions of the libraries whose rounding a result depends on."""
    return ", ".join(f"{name} {version}" for name, version in versions().items() if name != "rover-pipeline")
