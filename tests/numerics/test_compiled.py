"""The cache of compiled kernels: a kernel never runs with the old code of another one that it calls."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rover_pipeline.numerics import compiled
from tests.kit import environment

CALLED = """
from rover_pipeline.numerics.compiled import compiled

@compiled
def called(x):
    return x + {term}
"""
CALLING = """
import sys
from room.called import called
from rover_pipeline.numerics.compiled import compiled

@compiled
def calling(x):
    return 2 * called(x)

print(calling(1.0), len(calling.stats.cache_hits), "numba.typed.typeddict" in sys.modules)
"""


@pytest.mark.system
def test_a_change_in_a_kernel_reaches_the_kernels_of_other_files_that_call_it(tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.mkdir()
    (room / "__init__.py").touch()
    (room / "calling.py").write_text(CALLING)

    def run(term: int) -> tuple[float, int]:
        (room / "called.py").write_text(CALLED.format(term=term))
        os.utime(room / "called.py", ns=(term, term))
        done = subprocess.run(
            [sys.executable, "-B", "-m", "room.calling"],
            cwd=tmp_path,
            env={**environment(), "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        result, hits, _ = done.stdout.split()
        return float(result), int(hits)

    assert run(1) == (4.0, 0)
    assert run(1) == (4.0, 1), "nothing changed: the cache is used"
    assert run(2) == (6.0, 0), "the other file changed: it is not"


def test_kernels_of_a_room_share_a_folder_in_the_users_cache_or_beside_them_where_that_is_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    radar = Path(compiled.__file__).parents[1] / "radar"
    here = compiled.cache_folder(radar / "spectrum.py")
    assert here == compiled.cache_folder(radar / "point_kernels.py") and here.is_relative_to(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert compiled.cache_folder(radar / "spectrum.py").parent == radar / "__pycache__"


@pytest.mark.system
def test_another_checkout_of_the_same_sources_uses_the_kernels_that_are_compiled(tmp_path: Path) -> None:
    found = []
    for checkout in ("first", "second"):
        room = tmp_path / checkout / "room"
        room.mkdir(parents=True)
        (room / "__init__.py").touch()
        (room / "calling.py").write_text(CALLING)
        (room / "called.py").write_text(CALLED.format(term=1))
        command = [sys.executable, "-B", "-m", "room.calling"]
        variables = {**environment(), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run(command, cwd=room.parent, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.split())
    # What Numba compiles with takes longer to load than the compiled code.
    assert found == [["4.0", "0", "True"], ["4.0", "1", "False"]]


def test_a_long_compilation_is_announced_once_for_each_room_of_kernels(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 0.5, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0])
    monkeypatch.setattr(compiled.time, "monotonic", lambda: next(clock))
    notice = compiled.CompilationNotice()

    def begin(module: str) -> None:
        kernel = SimpleNamespace(py_func=SimpleNamespace(__module__=module))
        notice.on_start(SimpleNamespace(data={"dispatcher": kernel}))

    begin("rover_pipeline.radar.spectrum")
    begin("rover_pipeline.radar.spectrum")
    assert capsys.readouterr().err == ""
    begin("numba.np.arrayobj")  # It is long now, and this is no kernel of ours.
    assert capsys.readouterr().err == ""
    begin("rover_pipeline.radar.point_kernels")
    assert re.match(r"compiling the kernels of radar, about \d+ s, once on this machine", capsys.readouterr().err)
    begin("rover_pipeline.odometry.spline")
    assert capsys.readouterr().err.startswith("compiling the kernels of odometry")
    begin("rover_pipeline.radar.spectrum")
    assert capsys.readouterr().err == ""


def test_many_short_compilations_count_only_what_they_take(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(compiled.time, "monotonic", lambda: now)
    notice = compiled.CompilationNotice()
    function = SimpleNamespace(__module__="rover_pipeline.imu.filter")
    kernel = SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})
    for _ in range(10):
        notice.on_start(kernel)
        now += 0.4
        notice.on_end(kernel)
        now += 100.0
    assert capsys.readouterr().err == ""
