"""Many recordings are one dataset whose splits share no sample, not even of a sensor that is slower than the others."""

from __future__ import annotations

import pickle
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import rover_pipeline as rp
from rover_pipeline.datasets.splits import NO_SPLIT, without_shared
from rover_pipeline.errors import ConfigError, FormatError, UnknownNameError
from rover_pipeline.export.dataset import find_recordings
from tests.reading.rig import write_rig

BLOCKS = {"block_s": 2.0, "gap_s": 0.5, "train": 0.5, "validation": 0.25, "test": 0.25}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    for number, seconds in enumerate((12.0, 7.0, 9.0)):
        trace = write_rig(folder / "walks" / f"walk-{number}", seconds=seconds)
        _add_slow_sensor(trace)
    return folder


def _add_slow_sensor(trace: Path) -> None:
    """A sensor with a sample every 0.8 s, matched by its own times, so that eight instants have one sample."""
    shutil.copytree(trace / "_bev", trace / "_slow")
    ts = np.fromfile(trace / "_slow" / "ts")[::8] + 0.03
    written = {"ts": ts, "valid": np.ones(len(ts), "u1"), "occupancy": np.zeros((len(ts), 15), "u1")}
    for name, values in written.items():
        (trace / "_slow" / name).write_bytes(values.tobytes())
    (trace / "_sync" / "provenance.json").write_text(
        '{"made_by": "rover_pipeline", "options": {"tolerance": 0.4, "reference": "lidar"}}'
    )


def test_recordings_have_the_names_that_exports_give_them(folder: Path) -> None:
    traces = rp.open_many(folder)
    assert traces.names == tuple(each.name for each in find_recordings([str(folder)]))
    assert len(traces) == 3 and traces["walks_walk-1"] is traces[1] and traces[1:][0] is traces[1]
    assert rp.open_many([folder / "walks" / "walk-0", folder / "walks" / "walk-2"]).names == ("walk-0", "walk-2")
    with pytest.raises(UnknownNameError, match="did you mean 'walks_walk-1'"):
        traces["walk-1"]


@pytest.mark.parametrize("gap_s", [0.5, 0.0])
def test_no_sample_of_any_sensor_is_in_two_splits_and_all_splits_have_some(folder: Path, gap_s: float) -> None:
    traces = rp.open_many(folder)
    options = {**BLOCKS, "gap_s": gap_s}
    seen: dict[str, set[tuple[str, str, int]]] = {}
    times: dict[str, list[tuple[str, float]]] = {}
    for split in ("train", "validation", "test"):
        samples = traces.synced("radar", "bev", "slow", split=split, splits=options)
        assert len(samples)
        keys = [(record.recording, name, record[name].index) for record in samples for name in ("radar", "bev", "slow")]
        seen[split] = set(keys)
        times[split] = [(record.recording, record.ts) for record in samples]
    for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
        assert not seen[one] & seen[other]
        apart = [abs(a - b) for name, a in times[one] for there, b in times[other] if name == there]
        assert min(apart) >= gap_s


def test_a_split_without_a_sample_is_said_to_be_empty_and_what_to_do(folder: Path) -> None:
    traces = rp.open_many(folder / "walks" / "walk-1")
    with pytest.warns(UserWarning, match="no sample is in the split 'test'.*splits"):
        assert not len(traces.synced("bev", split="test"))


def test_a_split_is_not_blamed_where_no_sample_is_valid(tmp_path: Path) -> None:
    trace = write_rig(tmp_path / "walk", seconds=3.0)
    (trace / "_bev" / "valid").write_bytes(bytes((trace / "_bev" / "valid").stat().st_size))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not len(rp.open_many(trace).synced("bev", split="train"))


def test_splits_do_not_depend_on_the_sensors_or_on_the_order(folder: Path) -> None:
    traces = rp.open_many(folder)
    backwards = rp.Traces(list(traces)[::-1])
    for name, split in traces.splits(BLOCKS).items():
        np.testing.assert_array_equal(split, backwards.splits(BLOCKS)[name])
    bev = traces.synced("bev", split="train", splits=BLOCKS)
    both = traces.synced("bev", "camera", split="train", splits=BLOCKS)
    assert set(both.ts) <= set(bev.ts)


def test_places_are_split_by_where_the_rig_was(folder: Path, tmp_path: Path) -> None:
    options = {"by": "place", "cell_m": 2.0, "gap_m": 0.4}
    traces = rp.open_many(folder)
    # In the rig's recordings the way along x equals the time, so places that are apart have times that are.
    by_place = traces.splits(options)
    assert {code for split in by_place.values() for code in split.tolist()} == {NO_SPLIT, 0, 1, 2}
    copy = shutil.copytree(folder / "walks" / "walk-1", tmp_path / "walk")
    shutil.rmtree(copy / "_odom")
    with pytest.raises(FormatError, match="no positions"):
        rp.open_many([folder, copy]).splits(options)


def test_recordings_that_lack_a_sensor_are_an_error_or_skipped_by_name(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder / "walks" / "walk-1", tmp_path / "walk")
    shutil.rmtree(copy / "_power")
    traces = rp.open_many([folder / "walks" / "walk-0", copy])
    with pytest.raises(UnknownNameError, match="walk: has no sensor 'power'"):
        traces.synced("power")
    samples = traces.synced("power", skip_missing=True)
    assert set(samples.missing) == {"walk"} and {record.recording for record in samples} == {"walk-0"}


def test_samples_of_many_recordings_are_one_sequence(folder: Path) -> None:
    samples = rp.open_many(folder).synced("bev")
    assert len(samples) == sum(len(part) for part in samples.parts) == len(samples.ts)
    assert samples[-1].ts == samples.ts[-1] and samples[len(samples.parts[0])].bev.index == 0
    assert [each.ts for each in samples[::50]] == samples.ts[::50].tolist()
    assert pickle.loads(pickle.dumps(samples))[100].ts == samples[100].ts
    with pytest.raises(IndexError):
        samples[len(samples)]


def test_wrong_splits_are_errors_of_one_line(folder: Path) -> None:
    traces = rp.open_many(folder)
    with pytest.raises(UnknownNameError, match="did you mean 'train'"):
        traces.synced("bev", split="training")
    with pytest.raises(ConfigError, match="block_m"):
        traces.synced("bev", split="train", splits={"block_m": 3})
    with pytest.raises(ConfigError, match="name the split"):
        traces.synced("bev", splits={"by": "place"})
    with pytest.raises(FormatError, match="no such directory"):
        rp.open_many(folder / "none")


def test_instants_that_share_a_sample_with_another_split_are_in_none() -> None:
    splits = np.array([0, 0, 0, 1, 1, NO_SPLIT, 2, 2], "i1")
    slow = np.array([0, 0, 1, 1, 2, 2, 3, -1])
    assert without_shared(splits, [np.arange(8), slow]).tolist() == [0, 0, -1, -1, 1, -1, 2, 2]
