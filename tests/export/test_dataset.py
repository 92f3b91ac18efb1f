"""What all formats of datasets have in common: whole or absent, continued after an interruption, locked, read back."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from rover_pipeline.cli import main
from rover_pipeline.datasets.table import DATASETS
from rover_pipeline.errors import ConfigError, FormatError, InTheWayError
from rover_pipeline.export.dataset import dataset_settings, export_dataset
from rover_pipeline.export.output import DatasetOutput, tree_files
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.lookup import load
from tests.kit import small_trace, write_odometry

#: Formats whose examples below need nothing but lidar and odometry.
SETTINGS: dict[str, object] = {"splits": {"by": "recording"}, "options": {}}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("datasets")
    for seed, name in enumerate(("a", "b c")):
        trace = small_trace(folder / name, 6, sensors=("lidar",), invalid={"lidar": (1,)}, seed=seed)
        write_odometry(trace, invalid=(3,))
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in tree_files(folder)}


def export(traces: Path, out: Path, **more: object) -> Path:
    return export_dataset("kitti", [str(traces)], out, settings=SETTINGS, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", DATASETS)
def test_every_format_has_its_functions_its_options_and_a_summary(name: str) -> None:
    assert callable(load(f"{DATASETS[name].module}:write")) and load(f"{DATASETS[name].module}:LAYOUT")
    assert DATASETS[name].summary and DATASETS[name].options().needs()


def test_an_interrupted_export_continues_and_gives_the_same_bytes(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = content(export(traces, tmp_path / "whole"))
    made: list[str] = []
    part = DatasetOutput.part

    def interrupted(output: DatasetOutput, key: str, make: object) -> bool:
        if len(made) == 1:
            raise KeyboardInterrupt
        made.append(key)
        return part(output, key, make)  # type: ignore[arg-type]

    monkeypatch.setattr(DatasetOutput, "part", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export(traces, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    done: list[bool] = []

    def counted(output: DatasetOutput, key: str, make: object) -> bool:
        done.append(part(output, key, make))  # type: ignore[arg-type]
        return done[-1]

    monkeypatch.setattr(DatasetOutput, "part", counted)
    assert content(export(traces, tmp_path / "out")) == whole
    assert done == [False, True] and "1 of its parts are finished" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whole"]


def test_parts_of_other_inputs_are_not_used(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(traces, tmp_path / "in")
    part = DatasetOutput.part

    def interrupted(output: DatasetOutput, key: str, make: object) -> bool:
        part(output, key, make)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(DatasetOutput, "part", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export(tmp_path / "in", tmp_path / "out")
    monkeypatch.undo()
    (tmp_path / "in" / "a" / "_odom" / "valid").write_bytes(bytes([1, 1, 1, 1, 1, 0]))
    new = content(export(tmp_path / "in", tmp_path / "out"))
    assert new == content(export(tmp_path / "in", tmp_path / "again"))


def test_an_error_leaves_nothing(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(output: DatasetOutput, key: str, make: object) -> bool:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(DatasetOutput, "part", fails)
    with pytest.raises(Exception, match="out: cannot be written: No space left on device"):
        export(traces, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_of_two_exports_into_one_folder_one_says_so(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end, part = threading.Event(), threading.Event(), DatasetOutput.part

    def waits(output: DatasetOutput, key: str, make: object) -> bool:
        begun.set()
        may_end.wait(30)
        return part(output, key, make)  # type: ignore[arg-type]

    monkeypatch.setattr(DatasetOutput, "part", waits)
    first = threading.Thread(target=export, args=(traces, tmp_path / "out"))
    first.start()
    begun.wait(30)
    with pytest.raises(InTheWayError, match="out: is being made by another process"):
        export(traces, tmp_path / "out")
    may_end.set()
    first.join()
    assert (tmp_path / "out" / PROVENANCE).exists()


def test_the_same_export_again_changes_nothing_and_another_one_needs_to_be_asked_to_replace_it(
    traces: Path, tmp_path: Path
) -> None:
    out = export(traces, tmp_path / "out")
    before = (out / PROVENANCE).stat().st_mtime_ns
    export(traces, out)
    assert (out / PROVENANCE).stat().st_mtime_ns == before
    other = {**SETTINGS, "options": {"every": 2}}
    with pytest.raises(InTheWayError, match="other inputs or with other options"):
        export_dataset("kitti", [str(traces)], out, settings=other)
    export_dataset("kitti", [str(traces)], out, settings=other, replace=True)
    assert len(list(out.glob("sequences/00/velodyne/*"))) == 3
    (out / "mine.txt").write_text("precious")
    with pytest.raises(InTheWayError, match="added, changed or removed"):
        export_dataset("kitti", [str(traces)], out, settings=SETTINGS, replace=True)
    assert (out / "mine.txt").read_text() == "precious"


def test_what_is_not_ours_is_in_the_way(traces: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("precious")
    with pytest.raises(InTheWayError, match="is no kitti dataset of ours"):
        export(traces, tmp_path / "out", replace=True)
    assert (tmp_path / "out" / "notes.txt").read_text() == "precious"


def test_a_missing_virtual_sensor_is_one_line_that_says_how_to_make_it(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 3, sensors=("lidar",))
    with pytest.raises(FormatError) as error:
        export(trace, tmp_path / "out")
    assert str(error.value) == (
        f"{trace}: export kitti needs the virtual sensor _odom (pos), which is not there; make it: "
        f"rover-pipeline run {trace} --outputs odom"
    )
    shutil.rmtree(trace / "lidar")
    (trace / "radar").mkdir()
    with pytest.raises(FormatError, match="needs the raw sensor channel lidar/ts, which it lacks"):
        export(trace, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_settings_of_the_command_line_are_those_of_the_configuration() -> None:
    settings = dataset_settings("kitti", ["splits={by: place, seed: 3}", "kitti={every: 2}", "every=4"])
    assert settings == {"splits": {"by": "place", "seed": 3}, "options": {"every": 4}}
    with pytest.raises(ConfigError, match="must be KEY=VALUE"):
        dataset_settings("kitti", ["every"])
    with pytest.raises(ConfigError, match="splits: must be a mapping"):
        dataset_settings("kitti", ["splits=place"])


def test_info_and_check_read_a_dataset_back(traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    command = ["export", "kitti", str(traces), "-o", str(out), "--threads", "1", "--config", "splits={by: recording}"]
    assert main(command) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert main(["info", str(out), str(traces / "a"), "--json"]) == 0
    trace, info = json.loads(capsys.readouterr().out)
    assert info["format"] == "kitti" and info["recordings"] == ["a", "b-c"] and "sensors" in trace
    assert main(["info", str(out)]) == 0
    assert "kitti dataset" in capsys.readouterr().out
    assert main(["check", str(out)]) == 0
    scan = out / "sequences" / "00" / "velodyne" / "000000.bin"
    scan.write_bytes(scan.read_bytes()[:-1])
    assert main(["check", str(out)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "is not as it was exported" in lines[0] and any("000000.bin: has" in line for line in lines)
    with pytest.raises(SystemExit):
        main(["export"])
    assert main(["check", str(tmp_path)]) == 1


def test_damaged_files_of_a_dataset_are_a_line_each_and_never_waited_for(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = export(traces, tmp_path / "out")
    (out / PROVENANCE).write_text("{")
    assert main(["check", str(out)]) == 1
    assert f"{out / PROVENANCE}: is not valid JSON" in capsys.readouterr().out
    times = next(out.rglob("times.txt"))
    times.write_bytes(b"\xff\xfe 1\n")
    assert main(["check", str(out)]) == 1
    assert f"{times}: must hold a time" in capsys.readouterr().out
    times.unlink()
    os.mkfifo(times)
    assert main(["check", str(out)]) == 1
    assert f"{times}: is a named pipe where a file belongs" in capsys.readouterr().out
    times.unlink()
    with times.open("wb") as file:
        file.truncate(1 << 33)
    assert main(["check", str(out)]) == 1
    assert f"{times}: has 8,589,934,592 bytes" in capsys.readouterr().out


def test_whatever_a_parser_raises_is_one_line_about_the_dataset(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = export(traces, tmp_path / "out")

    def broken(folder: Path, found: object = None) -> object:
        raise LookupError("no\nsuch key")

    monkeypatch.setattr("rover_pipeline.export.kitti.describe", broken)
    monkeypatch.setattr("rover_pipeline.export.kitti.relations", broken)
    assert main(["info", str(out)]) == 1
    assert "cannot be read as kitti: LookupError no such key; export it again" in capsys.readouterr().err
    assert main(["check", str(out)]) == 1
    assert "cannot be read as kitti: LookupError no such key; export it again" in capsys.readouterr().out
