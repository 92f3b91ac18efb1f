"""L5Kit: rig and agents are where they were at the instants of the frames, and l5kit's filter keeps them all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rover_pipeline.datasets.options import SplitOptions
from rover_pipeline.errors import FormatError
from rover_pipeline.export.dataset import export_dataset
from rover_pipeline.export.l5kit.dataset import ArrayWriter, describe, host_name, read_array, read_whole
from rover_pipeline.export.l5kit.records import AGENT, FACE, FRAME, KEPT_LABELS, LABELS, SCENE
from tests.export.rules import problems
from tests.export.street import car, rig_state, street, walker
from tests.kit import START_S


def export(trace: Path, out: Path, **options: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scenes, frames and agents of an exported recording, all of it for training."""
    splits = SplitOptions(by="recording", train=1, validation=0, test=0).model_dump()
    export_dataset("l5kit", [str(trace)], out, settings={"splits": splits, "options": options})
    return read_whole(out / "scenes", SCENE), read_whole(out / "frames", FRAME), read_whole(out / "agents", AGENT)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("l5kit") / "street.zarr"
    export(street(out.parent / "street"), out)
    return out


def test_frames_are_where_the_rig_was_at_each_tenth_of_a_second(exported: Path) -> None:
    frames = read_whole(exported / "frames", FRAME)
    times = frames["timestamp"]
    assert len(times) == 79 and times[0] == (round(START_S * 10) + 1) * 100_000_000
    assert (np.diff(times) == 100_000_000).all()
    truth = rig_state(times / 1e9)
    assert np.abs(frames["ego_translation"] - truth["pos"]).max() < 1e-4  # a millisecond is 4 mm
    assert np.abs(frames["ego_rotation"] - truth["rot"]).max() < 1e-4
    assert (frames["traffic_light_faces_index_interval"] == 0).all()


def test_agents_are_where_the_objects_were_with_one_box_each(exported: Path) -> None:
    frames, agents = read_whole(exported / "frames", FRAME), read_whole(exported / "agents", AGENT)
    frame = np.searchsorted(frames["agent_index_interval"][:, 1], np.arange(len(agents)), side="right")
    for label, truth, extent in (("CAR", car, (4.45, 1.8, 1.6)), ("PEDESTRIAN", walker, (0.7, 0.5, 1.75))):
        own = agents["label_probabilities"].argmax(1) == LABELS.index(f"PERCEPTION_LABEL_{label}")
        pos, vel, yaw = truth(frames["timestamp"][frame[own]] / 1e9)
        assert own.sum() > 60
        assert np.abs(agents["centroid"][own] - pos[:, :2]).max() < 1e-4
        assert np.abs(agents["velocity"][own] - vel[:, :2]).max() < 1e-4
        assert np.abs(agents["yaw"][own] - yaw).max() < 1e-5
        assert np.abs(agents["extent"][own] - extent).max() < 1e-6
    assert np.allclose(agents["label_probabilities"].sum(1), 1, atol=1e-6)


def test_a_short_gap_of_a_track_is_filled_and_a_long_one_makes_two_tracks(exported: Path) -> None:
    agents = read_whole(exported / "agents", AGENT)
    person = agents["label_probabilities"][:, LABELS.index("PERCEPTION_LABEL_PEDESTRIAN")] > 0.5
    assert len(set(agents["track_id"][~person])) == 1
    tracks, counts = np.unique(agents["track_id"][person], return_counts=True)
    # Samples 0 to 39 and 50 to 79, at 0.037 s after frames: 39 frames before the gap of a second, 29 after it.
    assert len(tracks) == 2 and counts.tolist() == [39, 29]
    assert (tracks > 0).all()


def test_what_l5kit_would_drop_is_not_there(exported: Path) -> None:
    agents = read_whole(exported / "agents", AGENT)
    assert (agents["label_probabilities"][:, KEPT_LABELS].sum(1) > 0.5).all()
    assert (agents["centroid"][:, 0] > -50).all()
    assert list(problems("l5kit", exported)) == []


def test_a_scene_ends_where_poses_are_not_known(tmp_path: Path) -> None:
    lost = tuple(range(30, 36))
    scenes, frames, agents = export(street(tmp_path / "street", lost=lost), tmp_path / "a.zarr")
    assert scenes["frame_index_interval"].tolist() == [[0, 29], [29, 72]]
    times = frames["timestamp"]
    assert times[29] - times[28] == 800_000_000
    assert np.abs(frames["ego_translation"] - rig_state(times / 1e9)["pos"]).max() < 1e-4
    assert (scenes["start_time"] == times[[0, 29]]).all() and (scenes["end_time"] == times[[28, 71]]).all()
    assert frames["agent_index_interval"][-1, 1] == len(agents)
    assert list(problems("l5kit", tmp_path / "a.zarr")) == []


def test_scenes_of_each_split_are_in_its_own_store(tmp_path: Path) -> None:
    out = tmp_path / "out.zarr"
    splits = {"by": "time", "block_s": 2.0, "gap_s": 0.4, "train": 0.5, "validation": 0.25, "test": 0.25}
    export_dataset("l5kit", [str(street(tmp_path / "street"))], out, settings={"splits": splits})
    stores = ("train", "validate", "test")
    times = {name: read_whole(out / f"{name}.zarr/frames", FRAME)["timestamp"] for name in stores}
    assert all(len(each) for each in times.values())
    for name, own in times.items():
        others = np.concatenate([each for other, each in times.items() if other != name])
        assert np.abs(own[:, None] - others).min() >= 400_000_000
    whole = read_whole(out / "frames", FRAME)["timestamp"]
    assert sorted(np.concatenate(list(times.values()))) == whole.tolist()
    assert list(problems("l5kit", out)) == []
    assert describe(out)["frames"] == len(whole)


def test_a_recording_without_objects_says_how_to_make_them_and_can_go_without(tmp_path: Path) -> None:
    trace = street(tmp_path / "street", objects=False)
    with pytest.raises(FormatError, match=r"_objects.*rover-pipeline run .* --outputs objects"):
        export(trace, tmp_path / "a.zarr")
    assert not (tmp_path / "a.zarr").exists()
    _, frames, agents = export(trace, tmp_path / "b.zarr", agents=False)
    assert len(frames) == 79 and len(agents) == 0


def test_arrays_longer_than_a_chunk_are_read_as_they_were_written(tmp_path: Path) -> None:
    agents = np.zeros(17, AGENT)
    agents["centroid"] = np.random.default_rng(0).normal(size=(17, 2))
    writer = ArrayWriter(tmp_path / "agents", AGENT, 5)
    for at in range(0, 17, 7):
        writer.append(agents[at : at + 7])
    writer.close()
    assert sorted(path.name for path in (tmp_path / "agents").iterdir()) == [".zarray", "0", "1", "2", "3"]
    assert np.concatenate(list(read_array(tmp_path / "agents", AGENT))).tobytes() == agents.tobytes()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("shift", "do not increase"),
        ("mirror", "is no rotation"),
        ("extent", "changed the extent"),
        ("far", "50 m or more"),
        ("interval", "should begin at"),
        ("cut", "cannot be unpacked"),
        ("labels", "labels are not those"),
    ],
)
def test_a_broken_rule_is_named(damage: str, message: str, exported: Path, tmp_path: Path) -> None:
    store = tmp_path / "a.zarr"
    for name, (dtype, count) in {"scenes": (SCENE, 1), "frames": (FRAME, 79), "agents": (AGENT, 0)}.items():
        records = read_whole(exported / name, dtype)
        assert len(records) >= count
        if damage == "shift" and name == "frames":
            records["timestamp"][5] -= 150_000_000
        if damage == "mirror" and name == "frames":
            records["ego_rotation"][5, 1] *= -1
        if damage == "extent" and name == "agents":
            records["extent"][9, 0] += 1
        if damage == "far" and name == "agents":
            records["centroid"][0] = 60
        if damage == "interval" and name == "frames":
            records["agent_index_interval"][3] += 1
        store.mkdir(exist_ok=True)
        writer = ArrayWriter(store / name, dtype, 100)
        writer.append(records)
        writer.close()
    ArrayWriter(store / "traffic_light_faces", FACE, 10).close()
    labels = LABELS[::-1] if damage == "labels" else LABELS
    (store / ".zattrs").write_text(json.dumps({"format_version": 2, "labels": labels}))
    if damage == "cut":
        (store / "agents" / "0").write_bytes((store / "agents" / "0").read_bytes()[:40])
    assert any(message in problem for problem in problems("l5kit", store))


def test_hosts_of_long_names_stay_apart() -> None:
    names = [host_name(f"2026-11-21-campus-{number}") for number in range(5)]
    assert len(set(names)) == 5 and all(len(name) <= 16 for name in names)
    assert host_name("short") == "short"


def test_the_arrays_on_the_disk_are_those_that_l5kit_declares(exported: Path) -> None:
    described = json.loads((exported / "agents" / ".zarray").read_text())
    assert described["dtype"] == [
        ["centroid", "<f8", [2]], ["extent", "<f4", [3]], ["yaw", "<f4"], ["velocity", "<f4", [2]],
        ["track_id", "<u8"], ["label_probabilities", "<f4", [17]],
    ]  # fmt: skip
    described = json.loads((exported / "frames" / ".zarray").read_text())
    assert described["dtype"] == [
        ["timestamp", "<i8"], ["agent_index_interval", "<i8", [2]], ["traffic_light_faces_index_interval", "<i8", [2]],
        ["ego_translation", "<f8", [3]], ["ego_rotation", "<f8", [3, 3]],
    ]  # fmt: skip
    assert described["zarr_format"] == 2 and described["chunks"] == [10000] and described["shape"] == [79]
