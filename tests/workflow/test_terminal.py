"""What a run shows: a line for each step, and nothing of Snakemake; and how it ends when it is told to end."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from rover_pipeline.cli import main
from rover_pipeline.engine.progress import progress, say
from rover_pipeline.format.meta import META
from tests.conftest import CHECKOUT
from tests.kit import small_trace
from tests.workflow.runs import OUTPUTS, result_bytes, snakemake

RUN = [sys.executable, "-m", "rover_pipeline", "run", "--cores", "2", "--outputs", OUTPUTS]
#: A step that works until it is stopped.
SLOW = """
import time
from rover_pipeline.steps import step

@step(sensor="_slow", inputs={"iq": "radar/iq"}, outputs={"sum": "Nothing."}, version=1)
def slow(iq):
    open("begun", "w").close()
    time.sleep(600)
"""
SLOW_RULE = "use rule derived as slow with:\n    input: needs('slow:slow')\n    output: makes('slow:slow')\n"


def run(*arguments: object, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [*RUN, *map(str, arguments)]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, env=env)


@pytest.mark.system
def test_a_run_shows_a_line_for_each_step_and_snakemakes_lines_are_in_its_log(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "one")
    done = run(trace, env=os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert done.returncode == 0 and done.stdout == ""
    made = [f"{trace}/_{name}: 6 samples" for name in OUTPUTS.split(",")]
    lines = [re.sub(r", \d+ invalid, .* s$", "", line) for line in done.stderr.splitlines()]
    assert sorted(lines) == sorted([*made, "rover-pipeline: done: 2 outputs in", f"  {trace}"]), done.stderr
    (log,) = (tmp_path / "cache" / "rover-pipeline" / "runs").glob("*/.snakemake/log/*.log")
    assert "Building DAG of jobs" in log.read_text() and "rule lidar_image:" in log.read_text()
    assert run(trace).stderr.startswith("Nothing to be done")
    (trace / "_lidar_image" / META).unlink()
    assert "Building DAG of jobs" in run(trace, "-v").stderr


@pytest.mark.system
def test_an_error_that_stays_is_shown_with_its_traceback_and_without_the_advice_to_run_again(
    tmp_path: Path,
) -> None:
    trace = small_trace(tmp_path / "one", sensors=("radar",))
    (trace / "radar" / "ts").write_bytes(b"")
    command = [sys.executable, "-m", "rover_pipeline", "--debug", "run", str(trace), "--outputs", "radar_points"]
    failed = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert failed.returncode == 1 and "Traceback" in failed.stderr
    assert f"{trace}/radar/ts: holds no samples" in failed.stderr
    assert "fails in the same way each time" in failed.stderr and "the same command again" not in failed.stderr


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[tuple[int, int, Path]]:
    """The process of a run at a terminal whose step works, the terminal, and the recording."""
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "slow.smk").write_text(SLOW_RULE)
    trace = small_trace(tmp_path / "one", sensors=("radar",))
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{CHECKOUT}"}
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)  # the tests may run in the background, or below `nohup`
        command = [sys.executable, "-m", "rover_pipeline", "run", str(trace), "--outputs", "slow"]
        os.execve(sys.executable, [*command, "--config", "extra_rules=slow.smk"], environment)
    deadline = time.monotonic() + 120
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield pid, terminal, trace
    os.close(terminal)


@pytest.mark.system
@pytest.mark.parametrize("how", ["ctrl-c", "SIGTERM", "SIGHUP"])
def test_a_run_that_is_told_to_end_ends_with_all_its_processes_and_without_a_traceback(
    begun: tuple[int, int, Path], how: str
) -> None:
    pid, terminal, trace = begun
    if how == "ctrl-c":
        os.write(terminal, b"\x03")
    else:
        os.kill(pid, getattr(signal, how))
    shown = b""
    while chunk := _read(terminal):
        shown += chunk
    _, status = os.waitpid(pid, 0)
    text = shown.decode()
    assert os.waitstatus_to_exitcode(status) == 130 and "Traceback" not in text, text
    assert text.count("interrupted; the same command again finishes the work") == 1
    assert not _processes(str(trace)) and not list(trace.glob("_*"))


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # all who had it open have ended
        return b""


def _processes(word: str) -> list[str]:
    """Command lines of living processes that hold a word, but this one's."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        found += [line] if word in line and path.parent.name != str(os.getpid()) else []
    return found


@pytest.mark.system
def test_paths_with_spaces_and_quotes_are_processed_by_a_python_in_such_a_path(tmp_path: Path) -> None:
    venv = tmp_path / "my env's"
    venv.symlink_to(sys.prefix)
    python = venv / "bin" / "python"
    snakefile = [str(python), "-m", "snakemake", "--snakefile", str(CHECKOUT / "Snakefile")]
    command = [*snakefile, "--profile", str(CHECKOUT / "profiles" / "local"), "--config", "outputs=lidar_image"]
    (tmp_path / "here").mkdir()
    done = subprocess.run(command, cwd=tmp_path / "here", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here" / "demo" / "_lidar_image" / META).exists()
    trace = small_trace(tmp_path / 'it\'s "$HOME" `one`')
    assert run(trace).returncode == 0
    assert {path.name for path in trace.glob("_*")} == {f"_{name}" for name in OUTPUTS.split(",")}


@pytest.mark.system
def test_without_a_home_a_run_works(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "one")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    done = run(trace, env={**environment, "HOME": "/dev/null"})
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr


NAMES = {
    "a{b}c": "a name in braces",
    "a<b>c": "a name in angle brackets",
    "a\nb": "a line break",
    os.fsdecode(b"a\xff"): "bytes that are no UTF-8",
    "ab" * 20: "an ending that is 20 times the same",
}


@pytest.mark.system
def test_recordings_with_names_that_snakemake_refuses_are_a_line_each_and_the_others_are_made(tmp_path: Path) -> None:
    good = small_trace(tmp_path / "all" / "good")
    for name in NAMES:
        shutil.copytree(good, tmp_path / "all" / name)
    done = run(tmp_path / "all")
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    for reason in NAMES.values():
        assert len([line for line in done.stderr.splitlines() if f"has {reason} in its path" in line]) == 1
    assert result_bytes(good)
    command = [sys.executable, "-m", "rover_pipeline", "report", str(tmp_path / "all")]
    page = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert page.returncode == 0 and "a\\udcff" in (tmp_path / "all" / "_report" / "index.html").read_text(), page.stderr


@pytest.mark.parametrize("name", NAMES)
def test_one_such_name_is_told_before_snakemake_starts(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    assert main(["run", str(small_trace(tmp_path / name, 2))]) == 1
    told = capsys.readouterr().err
    assert f"has {NAMES[name]} in its path" in told and told.count("\n") == 1


def test_progress_goes_to_the_terminal_and_to_the_log_of_a_step_but_to_no_other_stream(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+") as log, (tmp_path / "stream").open("w+") as stream:
        with progress("one/_odom", 10, file=stream, log=log) as advance:
            advance(10)
        say("one/_odom: 10 samples\x1b[2J", stream, log, None)
        stream.seek(0)
        assert stream.read() == "one/_odom: 10 samples\\x1b[2J\n"
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal:
        with progress("one/_odom", 10, file=terminal) as advance:
            advance(10)
        say("one/_odom: 10 samples", terminal)
        assert "one/_odom" in os.read(leader, 4096).decode()
    os.close(leader)


@pytest.mark.system
def test_snakemake_itself_says_no_more_than_its_profile_and_the_lines_of_steps(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "one")
    done = snakemake(tmp_path, trace)
    ours = (f"{trace}/_", "rover-pipeline: done:", "  ")
    lines = [line for line in done.stderr.splitlines() if not line.startswith(ours)]
    assert done.returncode == 0 and len(lines) == 1 and lines[0].startswith("Using profile"), done.stderr
