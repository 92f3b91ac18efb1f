"""What was written is on the disk, with its name, before anything that relies on it has its own name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rover_pipeline.format.failures import clear_failure, read_failures, record_failure
from rover_pipeline.format.files import replace_file
from rover_pipeline.format.trace import imported_trace
from tests.kit import small_trace


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """Names that were synced or given by renames, in order: ("sync", path) or ("name", path)."""
    made: list[tuple[str, str]] = []
    fsync, rename, replace = os.fsync, os.rename, os.replace

    def synced(descriptor: int) -> None:
        fsync(descriptor)
        made.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}")))

    monkeypatch.setattr(os, "fsync", synced)
    for name, call in (("rename", rename), ("replace", replace)):

        def named(source: Path, target: Path, call: object = call, **folders: int) -> None:
            call(source, target, **folders)  # type: ignore[operator]
            made.append(("name", str(target)))

        monkeypatch.setattr(os, name, named)
    yield made


@pytest.mark.parametrize("into", ["a new trace", "a trace that is there"])
def test_all_names_of_an_import_are_on_the_disk_before_it_has_its_own(
    into: str, tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    out = tmp_path / "trace"
    if into != "a new trace":
        small_trace(out, 2, sensors=("radar",))
    calls.clear()
    with imported_trace(out) as folder:
        (folder / "camera" / "pictures").mkdir(parents=True)
        for path in ("camera/camera.json", "camera/pictures/notes.json", "config.yaml"):
            replace_file(folder / path, "{}")
        inside = str(folder)
    published = next(i for i, call in enumerate(calls) if call[0] == "name" and call[1].startswith(str(out)))
    before = calls[:published]
    for folder_of in ("camera", "camera/pictures"):
        last = max(
            i for i, (kind, path) in enumerate(before) if kind == "name" and Path(path).parent.name == "pictures"
        )
        assert ("sync", f"{inside}/{folder_of}") in before[last:], f"the names in {folder_of} were not synced"
    assert calls[-1] == ("sync", str(out if into != "a new trace" else tmp_path))


def test_a_replaced_file_keeps_its_new_name(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    replace_file(tmp_path / "a.json", "{}")
    kinds = [("sync", str(tmp_path / ".a.json.new")), ("name", str(tmp_path / "a.json")), ("sync", str(tmp_path))]
    assert calls == kinds


def test_why_an_output_failed_is_on_the_disk_and_a_kill_leaves_no_names(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    for number in range(3):  # killed while it wrote, each time in another process
        if (process := os.fork()) == 0:
            os.replace = lambda *names: os._exit(9)
            record_failure(tmp_path, "_odom", f"reason {number}", may_pass=False)
        os.waitpid(process, 0)
    assert len(list((tmp_path / ".failed").iterdir())) <= 1
    record_failure(tmp_path, "_odom", "no lidar", may_pass=False)
    assert [each.reason for each in read_failures(tmp_path)] == ["no lidar"]
    assert [kind for kind, _ in calls[-4:]] == ["sync", "name", "sync", "sync"]
    assert [path for _, path in calls[-2:]] == [str(tmp_path / ".failed"), str(tmp_path)]
    if (process := os.fork()) == 0:
        os.replace = lambda *names: os._exit(9)
        record_failure(tmp_path, "_odom", "again", may_pass=False)
    os.waitpid(process, 0)
    clear_failure(tmp_path, "_odom")
    assert os.listdir(tmp_path) == []
