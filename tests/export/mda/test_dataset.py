"""MDA datasets: key frames with their pictures and annotations, and a revision for each processing that changed one."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.cli import main
from rover_pipeline.errors import FormatError
from rover_pipeline.export.dataset import export_dataset
from rover_pipeline.export.mda import files
from rover_pipeline.export.mda.dataset import key_frames, objects_text, pose_text
from rover_pipeline.export.mda.files import add_revision, describe, read_item, text_of
from rover_pipeline.export.objects import Objects
from rover_pipeline.export.output import DatasetOutput, tree_files
from rover_pipeline.format.attempt import PARTIAL
from rover_pipeline.format.channels.jpeg import PictureChannel
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.objects.options import CLASSES
from tests.export.rules import problems
from tests.export.street import car, object_channels, rig_state, write_sensor
from tests.kit import START_S, small_trace, times

FRAMES = 25
SETTINGS: dict[str, Any] = {"splits": {"by": "recording"}, "options": {}}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two and a half seconds of a camera and of a lidar, with poses and objects at their times."""
    trace = small_trace(tmp_path / "trace", FRAMES, sensors=("lidar", "camera"), invalid={"camera": (11,)})
    process(trace, shift=0.0)
    write_sensor(trace / "_objects", times(FRAMES), np.ones(FRAMES, "u1"), object_channels(times(FRAMES)))
    return trace


def process(trace: Path, shift: float) -> None:
    """Make the poses again, some metres further up."""
    state = rig_state(times(FRAMES))
    state["pos"][:, 2] += shift
    cov = np.tile(np.diag([1e-4, 1e-4, 2e-4, 1e-6, 1e-6, 2e-6]).astype("f4"), (FRAMES, 1, 1))
    valid = np.ones(FRAMES, "u1")
    for name in ("_odom", "_camera_pose"):
        shutil.rmtree(trace / name, ignore_errors=True)
        write_sensor(trace / name, times(FRAMES), valid, {**state, **({"cov": cov} if name == "_odom" else {})})


def export(trace: Path, out: Path, **options: Any) -> list[Path]:
    export_dataset("mda", [str(trace)], out, settings={**SETTINGS, "options": options})
    return sorted(out.glob("*/*.mda"))


def annotation(path: Path, group: str, revision: int = -1) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(text_of(read_item(path).groups[group], revision))
    return content


def test_a_key_frame_holds_the_recorded_picture_its_pose_and_the_objects_at_its_time(
    trace: Path, tmp_path: Path
) -> None:
    paths = export(trace, tmp_path / "out")
    assert [path.name for path in paths] == [f"trace_camera_{number:06d}.mda" for number in (0, 10, 20)]
    pictures = Sensor(trace / "camera").channel("video.avi")
    assert isinstance(pictures, PictureChannel)
    item = read_item(paths[1])
    assert item.payload == pictures.jpeg(10) and item.data_type == "Image"
    assert item.tags == ("trace", "camera", "train") and item.metadata.isascii()
    assert json.loads(item.metadata)["sample"] == 10
    ts, state = times(FRAMES)[10], rig_state(times(FRAMES)[10:11])
    pose, objects, quality = (annotation(paths[1], name) for name in ("pose", "objects", "quality"))
    assert pose["time_us"] == round(ts * 1e6) and pose["valid"] == 1
    assert pose["pos_m"] == pytest.approx(state["pos"][0], abs=1e-4)
    assert Rotation.from_quat(pose["quat_xyzw"]).as_matrix() == pytest.approx(state["rot"][0], abs=1e-6)
    (found,) = (each for each in objects["objects"] if each["track"] == 41)
    assert found["centre_m"] == pytest.approx(car(np.array([ts]))[0][0], abs=1e-3)
    assert objects["classes"] == list(CLASSES) and len(objects["objects"]) == 4
    assert quality["odometry_position_sd_m"] == pytest.approx(0.02, abs=1e-6)
    assert list(problems("mda", tmp_path / "out")) == []


def test_ranges_are_a_picture_of_sixteen_bits(trace: Path, tmp_path: Path) -> None:
    ranges = np.random.default_rng(0).integers(0, 65536, (FRAMES, 8, 32)).astype("u2")
    write_sensor(trace / "_lidar_image", times(FRAMES), np.ones(FRAMES, "u1"), {"rng": ranges})
    paths = export(trace, tmp_path / "out", sensor="lidar", objects=False)
    item = read_item(paths[2])
    picture = cv2.imdecode(np.frombuffer(item.payload, "u1"), cv2.IMREAD_UNCHANGED)
    assert picture is not None and picture.dtype == np.uint16 and np.array_equal(picture, ranges[20])
    assert list(item.groups) == ["pose", "quality"]


def test_an_export_after_another_processing_adds_a_revision_and_keeps_the_old_ones(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(trace, out)
    for shift in range(1, 12):
        process(trace, float(shift))
        paths = export(trace, out)
    groups = read_item(paths[0]).groups
    assert {name: len(entries) for name, entries in groups.items()} == {"pose": 12, "objects": 1, "quality": 1}
    heights = [annotation(paths[0], "pose", revision)["pos_m"][2] for revision in range(12)]
    assert heights == pytest.approx(list(range(12)), abs=1e-4)
    assert all(len(entry.blocks) <= 2 for number, entry in enumerate(groups["pose"]) if number % 10)
    assert describe(out)["most_revisions"] == {"pose": 12, "objects": 1, "quality": 1}
    before = {path: path.read_bytes() for path in paths}
    export(trace, out)
    assert {path: path.read_bytes() for path in paths} == before


def test_key_frames_that_are_not_exported_any_more_keep_their_history(trace: Path, tmp_path: Path) -> None:
    first = export(trace, tmp_path / "out")
    process(trace, 1.0)
    export(trace, tmp_path / "out", period=2.0)
    assert sorted(tmp_path.glob("out/*/*.mda")) == first
    assert [len(read_item(path).groups["pose"]) for path in first] == [2, 1, 2]


def test_an_update_that_was_interrupted_gives_the_same_files_when_it_is_started_again(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rover_pipeline.export.dataset.PART_ITEMS", 1)
    export(trace, tmp_path / "out")
    shutil.copytree(tmp_path / "out", tmp_path / "undisturbed")
    process(trace, 1.0)
    export(trace, tmp_path / "undisturbed")
    part = DatasetOutput.part
    made: list[str] = []

    def interrupted(output: DatasetOutput, key: str, make: Any) -> bool:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(key)
        return part(output, key, make)

    monkeypatch.setattr(DatasetOutput, "part", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export(trace, tmp_path / "out")
    monkeypatch.setattr(DatasetOutput, "part", part)
    export(trace, tmp_path / "out")
    contents = [
        {name: (tmp_path / out / name).read_bytes() for name in tree_files(tmp_path / out)}
        for out in ("out", "undisturbed")
    ]
    assert contents[0] == contents[1] and len(contents[0]) == 3


@pytest.mark.parametrize("number", range(4))
def test_an_update_of_a_file_that_is_killed_before_any_of_its_renames_leaves_a_dataset_that_goes_on(
    number: int, trace: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    file = export(trace, out)[0]
    (tmp_path / "text").write_text('{"x": 1, "y": [1, 2, 3, 4, 5]}')
    update = ["mda", "update", str(file), str(tmp_path / "text"), "--group", "pose"]
    if (process := os.fork()) == 0:
        left = iter(range(number))
        os.replace = lambda *names, rename=os.replace: rename(*names) if next(left, None) is not None else os._exit(9)
        os._exit(main(update))
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == (9 if number < 3 else 0), "an update has three renames"
    assert main(["check", str(out)]) == 0
    assert main(update) == 0 == main(["check", str(out)])
    assert text_of(read_item(file).groups["pose"], -1) == (tmp_path / "text").read_text()
    assert len(read_item(file).groups["pose"]) == 2
    assert len(export(trace, out)) == 3, "a later export goes on from it"


def test_a_missing_sensor_is_named_with_the_command_that_makes_it(trace: Path, tmp_path: Path) -> None:
    shutil.rmtree(trace / "_camera_pose")
    with pytest.raises(FormatError, match=r"_camera_pose.*rover-pipeline run .* --outputs camera_pose"):
        export(trace, tmp_path / "out")


def test_the_commands_list_compare_extract_and_update_revisions(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    path = export(trace, out)[0]
    process(trace, 1.0)
    export(trace, out)
    capsys.readouterr()
    assert main(["mda", "list", "--json", str(out)]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert len(listed) == 3 and listed[str(path)]["revisions"]["pose"] == 2
    assert main(["mda", "list", str(out)]) == 0
    assert "(1 revision)" in (said := capsys.readouterr().out) and "(2 revisions)" in said
    assert main(["mda", "versions", str(path), "--group", "pose", "--compare", "0", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:6] for line in lines[-2:]] == ['-{"fra', '+{"fra'] and "1.0000" in lines[-1]
    assert main(["mda", "versions", str(path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["pose"]
    assert [row["revision"] for row in rows] == [0, 1] and rows[1]["offset"] == rows[0]["offset"] + rows[0]["length"]
    assert main(["mda", "extract", str(path), "-o", str(tmp_path / "old"), "--group", "pose", "--rev", "0"]) == 0
    stem = path.stem
    assert (tmp_path / "old" / f"{stem}.jpg").read_bytes() == read_item(path).payload
    text = (tmp_path / "old" / f"{stem}.pose.txt").read_text()
    assert text == text_of(read_item(path).groups["pose"], 0) + "\n"
    (tmp_path / "new.txt").write_text(text)
    assert main(["mda", "update", str(path), str(tmp_path / "new.txt"), "--group", "pose"]) == 0
    assert text_of(read_item(path).groups["pose"], 2) == text[:-1]
    monkeypatch.setattr("sys.stdin", io.StringIO("[]"))
    assert main(["mda", "update", str(path), "-", "--group", "labels", "--create"]) == 0
    assert text_of(read_item(path).groups["labels"], 0) == "[]"
    assert main(["check", str(out)]) == 0, "an update by this program is no change behind its back"
    process(trace, 2.0)
    export(trace, out)
    assert len(read_item(path).groups["pose"]) == 4 and "labels" in read_item(path).groups


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["extract", "FILE", "-o", "OUT", "--rev", "7"], "there is no revision 7; there are 1"),
        (["extract", "FILE", "-o", "OUT", "--group", "poze"], "did you mean 'pose'?"),
        (["update", "FILE", "TEXT", "--group", "poses"], "or give --create"),
        (["update", "FILE", "ACCENT", "--group", "pose"], "must be ASCII"),
        (["list", "TEXT"], "is no MDA file, or is damaged: byte"),
        (["list", "ABSENT"], "No such file or directory"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_changes_nothing(
    arguments: list[str], message: str, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = export(trace, tmp_path / "out")[0]
    before = path.read_bytes()
    (tmp_path / "text").write_text("new")
    (tmp_path / "accent").write_text("caf\u00e9")
    names = {"FILE": path, "OUT": tmp_path / "x", "TEXT": tmp_path / "text", "ACCENT": tmp_path / "accent"}
    names["ABSENT"] = tmp_path / "absent.mda"
    capsys.readouterr()
    assert main(["mda", *(str(names.get(each, each)) for each in arguments)]) == 1
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
    assert path.read_bytes() == before and not (tmp_path / "x").exists()


def test_extraction_overwrites_nothing(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = export(trace, tmp_path / "out")[0]
    assert main(["mda", "extract", str(path), "-o", str(tmp_path / "x")]) == 0
    first, *others = sorted((tmp_path / "x").iterdir())
    first.unlink()
    assert main(["mda", "extract", str(path), "-o", str(tmp_path / "x")]) == 0  # as after a kill
    assert first.exists()
    others[0].write_bytes(b"edited")
    assert main(["mda", "extract", str(path), "-o", str(tmp_path / "x")]) == 1
    assert "already exists" in capsys.readouterr().err and others[0].read_bytes() == b"edited"


def test_the_same_update_finishes_what_a_killed_one_has_left(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    path = export(trace, out)[0]
    shutil.copytree(out, tmp_path / "whole" / "out")
    assert add_revision(tmp_path / "whole" / "out" / path.relative_to(out), "notes", "a tree") == 1
    with monkeypatch.context() as killed:
        killed.setattr(files, "_settle", lambda *_: os._exit(0))
        child = os.fork()
        if child == 0:
            add_revision(path, "notes", "a tree")
        os.waitpid(child, 0)
    assert "updated_from" in json.loads((out / PROVENANCE).read_text())
    assert len(list((tmp_path / PARTIAL).glob("out.*-*"))) == 1
    assert add_revision(path, "notes", "a tree") == 1
    assert (out / PROVENANCE).read_bytes() == (tmp_path / "whole" / "out" / PROVENANCE).read_bytes()
    assert not (tmp_path / PARTIAL).exists()


def test_key_frames_depend_on_recorded_times_only() -> None:
    ts = START_S + np.array([0.4, 0.9, 1.1, 1.2, 3.7, 3.9, 4.0])
    assert key_frames(ts, 1.0).tolist() == [0, 2, 4, 6]
    assert key_frames(ts[:0], 1.0).tolist() == []


def test_a_number_keeps_its_place_in_the_text_and_what_is_not_known_is_null() -> None:
    def text(height: float) -> str:
        return pose_text("_odom", START_S, True, np.array([0, 0, height]), np.eye(3), np.zeros(3))

    low, high = text(-0.00001), text(-1234.5)
    assert len(low) == len(high) and sum(a != b for a, b in zip(low, high, strict=True)) <= 8
    assert json.loads(low)["pos_m"] == [0, 0, 0] and "-0.0" not in low
    assert json.loads(text(np.nan))["pos_m"] == [0, 0, None]
    assert json.loads(objects_text(START_S, None, CLASSES))["objects"] is None


def test_objects_are_moved_to_the_time_of_the_picture() -> None:
    one = np.ones(1)
    rows = Objects(
        START_S * one, np.zeros((1, 3)), np.ones((1, 3)), 0 * one, np.array([[10.0, 0, 0]]), one, np.ones((1, 4))
    )
    (found,) = json.loads(objects_text(START_S + 0.05, rows, CLASSES))["objects"]
    assert found["centre_m"] == pytest.approx([0.5, 0, 0], abs=1e-4)
    # A camera whose clock is 2 s fast.
    (found,) = json.loads(objects_text(START_S + 2.05, rows, CLASSES, -2.0))["objects"]
    assert found["centre_m"] == pytest.approx([0.5, 0, 0], abs=1e-4)
