"""Samples that are put together belong to one instant, can all be trusted, and are the same in every process."""

from __future__ import annotations

import json
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rover_pipeline as rp
from rover_pipeline.errors import ConfigError, FormatError, UnknownNameError
from rover_pipeline.format.meta import META
from tests.reading.rig import TOLERANCE_S, times, write_rig

NAMES = ("camera", "radar", "power", "bev")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    invalid = {"_bev": (3, 20), "_power": (31,), "camera": (60,)}
    return write_rig(tmp_path_factory.mktemp("synced") / "walk", invalid=invalid, pictures="jpg")


def test_every_sample_is_the_nearest_of_its_sensor_within_the_tolerance_and_valid(trace: Path) -> None:
    opened = rp.open(trace)
    synced = opened.synced(*NAMES)
    assert 0 < len(synced) < len(opened["_sync"])
    for sample in synced:
        for name in NAMES:
            ts = opened[name].ts
            one = sample[name]
            assert abs(one.ts - sample.ts) == np.abs(ts - sample.ts).min() <= TOLERANCE_S
            assert one.dt == pytest.approx(one.ts - sample.ts, abs=1e-6)
            assert one.valid and opened[name].valid[one.index]
        assert (sample.bev.occupancy == sample.bev.index).all() and (sample.power.power == sample.power.index).all()
        assert (sample.radar["iq"] == sample.radar.index).all() and sample.power.index == sample.radar.index
        assert np.abs(sample.camera.picture.astype(int) - sample.camera.index).max() <= 2


def test_what_is_left_out_is_counted_by_its_reason(trace: Path) -> None:
    opened = rp.open(trace)
    synced, ts = opened.synced(*NAMES), times("lidar", 3.0)
    away = np.abs(times("radar", 3.0)[:, None] - ts).min(0)
    absent = int((away > TOLERANCE_S).sum())
    assert absent == 2
    assert synced.omitted["radar"]["absent"] == synced.omitted["power"]["absent"] == absent
    assert synced.omitted["bev"] == {"absent": 0, "invalid": 2}
    everything = opened.synced(*NAMES, complete=False, valid=False)
    assert len(everything) == len(ts) and sum(sample.radar is None for sample in everything) == absent
    assert sum(not sample.bev.valid for sample in everything) == 2
    trusted = opened.synced(*NAMES, complete=False)
    assert len(trusted) > len(synced) and all(sample.bev.valid for sample in trusted)
    near = opened.synced("camera", max_dt=0.01)
    assert 0 < len(near) < len(ts) and all(abs(sample.camera.dt) <= 0.01 for sample in near)


def test_single_channels_are_read_alone(trace: Path) -> None:
    synced = rp.open(trace).synced("odom/pos", "lidar/ts")
    assert set(synced[0]["odom"]) == {"pos", "ts", "dt", "valid", "index"}
    np.testing.assert_allclose([sample.odom.pos[0] for sample in synced], synced.ts - 1.7e9)


def test_slices_and_masks_give_fewer_instants_and_nothing_is_read_before(trace: Path) -> None:
    synced = rp.open(trace).synced("bev")
    assert [each.ts for each in synced[2:9:3]] == synced.ts[2:9:3].tolist()
    assert len(synced[synced.ts > synced.ts[4]]) == len(synced) - 5
    with pytest.raises(IndexError, match="there is no sample 99"):
        synced[99]


def test_a_sensor_with_times_of_its_own_is_matched_within_the_tolerance_of_sync(tmp_path: Path) -> None:
    trace = write_rig(tmp_path / "walk")
    (trace / "_power").rename(trace / "_own")
    (trace / "_own" / "ts").write_bytes((times("radar", 3.0) + 0.02).tobytes())
    synced = rp.open(trace).synced("own", "lidar", max_dt=TOLERANCE_S)
    assert len(synced) > 20
    for sample in synced:
        assert sample.own.ts - sample.ts == pytest.approx(sample.own.dt) and abs(sample.own.dt) <= TOLERANCE_S


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_read_the_same_bytes(trace: Path, method: str) -> None:
    synced = rp.open(trace).synced(*NAMES)
    synced[0]  # maps are open here, and must not be sent
    with multiprocessing.get_context(method).Pool(1) as pool:
        there = pool.map(synced.__getitem__, [0, 5, -1])
    for at, record in zip((0, 5, -1), there, strict=True):
        assert pickle.dumps(record) == pickle.dumps(synced[at])


def shifted(record: rp.Record) -> Any:
    return record.bev.index + 100


def test_a_function_is_called_when_a_sample_is_read(trace: Path) -> None:
    samples = rp.open(trace).synced("bev").map(shifted).map(float)
    assert samples[0] == 100.0 and samples[1:3][1] == 102.0 and pickle.loads(pickle.dumps(samples))[0] == 100.0


def test_samples_are_arrays_of_ones_own(trace: Path) -> None:
    synced = rp.open(trace).synced("bev", "radar")
    for array in (synced[0].bev.occupancy, synced[0].radar.iq):
        array += 1  # torch warns of arrays that cannot be written to
    assert (synced[0].bev.occupancy == synced[0].bev.index).all()


def test_what_cannot_be_put_together_is_an_error_of_one_line(tmp_path: Path) -> None:
    trace = write_rig(tmp_path / "walk")
    opened = rp.open(trace)
    with pytest.raises(ConfigError, match="name the sensors"):
        opened.synced()
    with pytest.raises(UnknownNameError, match="did you mean 'camera'"):
        opened.synced("camra")
    with pytest.raises(UnknownNameError, match="did you mean 'pos'"):
        opened.synced("odom/poss")
    with pytest.raises(UnknownNameError, match=f"run {trace} --outputs radar_points"):
        opened.synced("radar_points")
    meta = json.loads((trace / "_power" / META).read_text())
    (trace / "_power" / META).write_text(json.dumps({**meta, "dt": meta["power"]}))
    (trace / "_power" / "dt").write_bytes((trace / "_power" / "power").read_bytes())
    with pytest.raises(ConfigError, match="'dt' of its own"):
        rp.open(trace).synced("power")
    assert len(rp.open(trace).synced("power/power"))
    (trace / "_power" / META).write_text(json.dumps(meta))
    count = len(opened["lidar"])
    (trace / "_sync" / "radar").write_bytes(np.full(count, 10_000, "<i4").tobytes())
    with pytest.raises(FormatError, match="--outputs sync"):
        rp.open(trace).synced("power")


def test_a_sample_is_printed_in_one_short_line(trace: Path) -> None:
    sample = rp.open(trace).synced(*NAMES)[0]
    assert len(str(sample)) < 800 and "\n" not in str(sample) and "array(" not in str(sample)
    assert f"iq: int16[{', '.join(map(str, sample.radar['iq'].shape))}]" in str(sample)
