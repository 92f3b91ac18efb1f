"""What every format keeps: nothing is overwritten, nothing half-written stays, unknown names are answered."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from rover_pipeline.cli import main
from rover_pipeline.errors import InTheWayError
from rover_pipeline.export import FORMATS
from rover_pipeline.export.output import new_output
from tests.kit import environment, small_trace


@pytest.mark.parametrize("name", FORMATS)
def test_every_listed_format_has_a_function_and_says_what_it_is(name: str) -> None:
    module, _, function = FORMATS[name].function.partition(":")
    assert callable(getattr(importlib.import_module(module), function))
    assert FORMATS[name].what


def test_an_unknown_format_is_answered_with_the_known_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = small_trace(tmp_path / "trace", 2)
    assert main(["export", "plyy", str(trace), "-o", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert "did you mean 'ply'?" in said and all(f"{name}:" in said for name in FORMATS)


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = small_trace(tmp_path / "trace", 2)
    (tmp_path / "out").write_text("precious")
    assert main(["export", "ply", str(trace), "-o", str(tmp_path / "out")]) == 1
    assert "is there already" in capsys.readouterr().err
    assert (tmp_path / "out").read_text() == "precious"


def test_several_traces_become_a_folder_that_mirrors_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b/c"):
        small_trace(tmp_path / "all" / name, 2)
    assert main(["export", "ply", str(tmp_path / "all"), "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / "out" / name) for name in ("a", "b/c")]
    assert sorted(str(path.relative_to(tmp_path / "out")) for path in tmp_path.glob("out/**/*.ply")) == [
        "a/000000.ply", "b/c/000000.ply",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_fails_half_way_leaves_nothing_and_what_appears_meanwhile_stays(kind: str, tmp_path: Path) -> None:
    def begin(made: Path) -> None:
        if kind == "file":
            made.write_text("ours")
        else:
            made.mkdir()
            (made / "part").write_text("ours")

    place = tmp_path / "deep" / "out"
    with pytest.raises(RuntimeError, match="half way"), new_output(place) as made:
        begin(made)
        raise RuntimeError("half way")
    assert list(place.parent.iterdir()) == []
    with pytest.raises(InTheWayError, match="is there already"), new_output(place) as made:
        begin(made)
        if kind == "file":
            place.write_text("theirs")
        else:
            place.mkdir()
            (place / "theirs").touch()
    assert place.read_text() == "theirs" if kind == "file" else [p.name for p in place.iterdir()] == ["theirs"]
    with pytest.raises(InTheWayError, match="another process"), new_output(tmp_path / "x"), new_output(tmp_path / "x"):
        pass


@pytest.mark.parametrize("name", ["tum", "ply", "rrd", "mp4"])
def test_a_disk_that_takes_no_more_ends_an_export_with_one_line_and_nothing_stays(
    name: str, drive: Path, tmp_path: Path
) -> None:
    place = tmp_path / "new" / "out"
    command = [sys.executable, "-m", "rover_pipeline", "export", name, str(drive), "-o", str(place)]
    # A limit on the size of files fails the way a full disk does, at the first write beyond it.
    limited = ["bash", "-c", 'ulimit -f 1; exec "$@"', "bash", *command]
    done = subprocess.run(limited, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"rover-pipeline: {place}: cannot be written: File too large; nothing of it is left behind\n"
    assert not list(place.parent.iterdir())
