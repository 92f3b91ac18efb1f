"""The exchange of arrays between mapped functions."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.engine.shared import Exchange


def test_another_process_gets_the_arrays_of_a_key_in_their_order(tmp_path: Path) -> None:
    store = Exchange(tmp_path)
    arrays = [np.arange(n, dtype="i8") for n in range(12)]
    store.put("first", arrays)
    store.put("none", [])
    received = pickle.loads(pickle.dumps(store)).get("first")
    assert all(one.tobytes() == other.tobytes() for one, other in zip(arrays, received, strict=True))
    assert store.get("none") == []


def test_a_key_that_nothing_was_put_under_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Exchange(tmp_path).get("first")
