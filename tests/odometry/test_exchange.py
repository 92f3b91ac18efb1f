"""The exchange of arrays between mapped functions."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.engine.shared import Exchange
from rover_pipeline.odometry.observations import NO_POINTS, Points, Sweep, packed, unpacked


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


def test_arrays_are_made_once_and_again_where_whoever_made_them_was_killed(tmp_path: Path) -> None:
    store = Exchange(tmp_path)
    made: list[int] = []

    def make() -> list[np.ndarray]:
        made.append(len(made))
        return [np.arange(1000.0), np.array(made)]

    assert [store.once("first", make)[1].tolist() for _ in range(3)] == [[0]] * 3
    (file,) = tmp_path.iterdir()
    os.truncate(file, file.stat().st_size // 2)
    assert [store.once("first", make)[1].tolist() for _ in range(2)] == [[0, 1]] * 2


def arrays_of(sweep: Sweep | None) -> list[np.ndarray]:
    return [] if sweep is None else [np.asarray(each) for each in (*sweep[:4], *sweep.held_out)]


def test_sweeps_that_were_kept_are_the_same_to_the_last_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def points(count: int) -> Points:
        return Points(rng.normal(size=(count, 3)).astype("f4"), np.sort(rng.integers(0, 9, count)).astype("i4"))

    sweeps = [Sweep(*points(n), rng.random(9), rng.random(), held) for n, held in ((50, points(7)), (9, NO_POINTS))]
    store = Exchange(tmp_path)
    blocks: list[list[Sweep | None]] = [[None], [*sweeps, None], [None, sweeps[0], None, sweeps[1]]]
    for number, block in enumerate(blocks):
        store.put(str(number), packed(block))
        for before, after in zip(block, unpacked(store.get(str(number))), strict=True):
            assert (before is None) == (after is None)
            for one, other in zip(arrays_of(before), arrays_of(after), strict=True):
                assert one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def test_a_part_of_a_store_is_deleted_with_its_last_reference_and_not_with_a_copy_that_was_sent(tmp_path: Path) -> None:
    store = Exchange(tmp_path)
    part = store.part()
    part.put("a", [np.arange(3)])
    sent = pickle.loads(pickle.dumps(part))
    np.testing.assert_array_equal(sent.get("a")[0], np.arange(3))
    folder = sent.folder
    del sent
    assert folder.is_dir() and folder.parent == tmp_path
    del part
    assert list(tmp_path.iterdir()) == []
