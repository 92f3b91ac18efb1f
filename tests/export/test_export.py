"""Rules for all formats: nothing is overwritten, nothing incomplete stays, unknown formats get a helpful error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rover_pipeline.cli import main
from rover_pipeline.errors import InTheWayError
from rover_pipeline.export import FORMATS
from rover_pipeline.export.output import new_output
from rover_pipeline.lookup import load
from tests.kit import SMALL_FILES, environment, small_trace


@pytest.mark.parametrize("name", FORMATS)
def test_every_listed_format_has_a_write_function(name: str) -> None:
    assert callable(load(f"rover_pipeline.export.{FORMATS[name].write}"))


def test_the_list_of_formats_imports_no_format() -> None:
    code = "import sys, rover_pipeline.export; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert not {"av", "cv2", "matplotlib", "ouster", "rerun", "scipy"} & set(done.stdout.split())


def test_an_unknown_format_is_an_error_that_lists_the_known_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = small_trace(tmp_path / "trace", 2)
    assert main(["export", "plyy", str(trace), "-o", str(tmp_path / "out")]) == 1
    message = capsys.readouterr().err
    assert (
        len(message) < 300 and "did you mean 'ply'?" in message and all(message.count(f" {name}") for name in FORMATS)
    )


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = small_trace(tmp_path / "trace", 2)
    (tmp_path / "out").write_text("precious")
    assert main(["export", "ply", str(trace), "-o", str(tmp_path / "out")]) == 1
    assert "already exists" in capsys.readouterr().err
    assert (tmp_path / "out").read_text() == "precious"


def test_several_traces_become_a_directory_with_the_same_tree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b/c"):
        small_trace(tmp_path / "all" / name, 2)
    assert main(["export", "ply", str(tmp_path / "all"), "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / "out" / name) for name in ("a", "b/c")]
    assert sorted(str(path.relative_to(tmp_path / "out")) for path in tmp_path.glob("out/**/*.ply")) == [
        "a/000000.ply", "b/c/000000.ply",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_failed_output_leaves_nothing_and_a_file_that_appeared_meanwhile_stays(kind: str, tmp_path: Path) -> None:
    def begin(scratch: Path) -> None:
        if kind == "file":
            scratch.write_text("ours")
        else:
            scratch.mkdir()
            (scratch / "part").write_text("ours")

    path = tmp_path / "deep" / "out"
    with pytest.raises(RuntimeError, match="half way"), new_output(path) as scratch:
        begin(scratch)
        raise RuntimeError("half way")
    assert list(path.parent.iterdir()) == []
    with pytest.raises(InTheWayError, match="already exists"), new_output(path) as scratch:
        begin(scratch)
        if kind == "file":
            path.write_text("theirs")
        else:
            path.mkdir()
            (path / "theirs").touch()
    assert path.read_text() == "theirs" if kind == "file" else [p.name for p in path.iterdir()] == ["theirs"]
    with pytest.raises(InTheWayError, match="another process"), new_output(tmp_path / "x"), new_output(tmp_path / "x"):
        pass


@pytest.mark.system
@pytest.mark.parametrize("name", ["tum", "ply", "rrd", "mp4"])
def test_a_full_disk_ends_an_export_with_a_one_line_error_and_nothing_stays(
    name: str, drive: Path, tmp_path: Path
) -> None:
    path = tmp_path / "new" / "out"
    command = [sys.executable, "-m", "rover_pipeline", "export", name, str(drive), "-o", str(path)]
    # A limit on the size of files fails the way a full disk does, at the first write beyond it.
    limited = [*SMALL_FILES, *command]
    done = subprocess.run(limited, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"rover-pipeline: {path}: cannot be written: File too large; nothing of it is left behind\n"
    assert not list(path.parent.iterdir())
