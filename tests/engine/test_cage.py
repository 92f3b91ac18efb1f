"""What a decoder cannot do that a file has taken over, and what is said when it dies."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rover_pipeline.cli import main
from rover_pipeline.engine import cage
from rover_pipeline.engine.apart import DiedError, run_apart
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import ReportedError
from rover_pipeline.format.failures import read_failures
from rover_pipeline.format.virtual import discard
from rover_pipeline.table import find_step
from tests.conftest import CHECKOUT
from tests.importers import bags
from tests.importers.bags import START, imu
from tests.kit import PER_PROCESS, small_trace, snapshot

confined = pytest.mark.skipif(not cage.version(), reason="this kernel has no Landlock, or it is not enabled")
IMAGE = "_lidar_image"
DECODER = "rover_pipeline.format.channels.lzmaf.lzma_decode"


def step(trace: Path, name: str = IMAGE, request: str = "{}") -> int:
    return main(
        ["step", name, "--trace", str(trace), "--request", request, "--output", str(trace / name / ".options-0")]
    )


def refused(call: Callable[[], Any]) -> str:
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "done"


@confined
def test_a_process_in_a_cage_changes_nothing_outside_of_its_folders(tmp_path: Path) -> None:
    (own := tmp_path / "trace" / "own").mkdir(parents=True)
    raw = tmp_path / "trace" / "radar"
    raw.mkdir()
    for path in (raw / "iq", tmp_path / "outside"):
        path.write_bytes(b"raw")
    before = snapshot(tmp_path)

    def attempts() -> dict[str, str]:
        return {
            "write": refused(lambda: (raw / "iq").write_bytes(b"other")),
            "append": refused(lambda: (raw / "iq").open("ab").close()),
            "truncate": refused(lambda: os.truncate(raw / "iq", 1)),
            "remove": refused((raw / "iq").unlink),
            "create": refused((raw / "valid").touch),
            "rename a file": refused(lambda: os.rename(raw / "iq", raw / "other")),
            "replace by own": refused(lambda: os.rename(raw / "iq", own / "iq")),
            "link": refused(lambda: os.link(raw / "iq", own / "iq")),
            "take the folder over": refused(lambda: os.rename(raw, own / "radar")),
            "symlink": refused(lambda: os.symlink(raw / "iq", raw / "link")),
            "pipe": refused(lambda: os.mkfifo(raw / "pipe")),
            "outside": refused(lambda: (tmp_path / "outside").write_bytes(b"")),
            "through a link of its own": refused(lambda: _through(own / "link", tmp_path / "outside")),
            "new outside": refused((tmp_path / "new").mkdir),
            "end its parent": refused(lambda: os.kill(os.getppid(), 0)),
        }

    def _through(link: Path, target: Path) -> None:
        link.symlink_to(target)
        try:
            link.write_bytes(b"")
        finally:
            link.unlink()

    found = run_apart(attempts, lambda: [own], publishes=[tmp_path / "trace"])
    if cage.version() < 6:
        del found["end its parent"]  # older kernels keep no signals in
    assert "done" not in found.values(), found
    assert snapshot(tmp_path) == before


@confined
def test_what_a_job_must_write_it_can_write(tmp_path: Path) -> None:
    def writes() -> list[str]:
        import tempfile

        (tmp_path / "own" / "file").write_bytes(b"1")
        os.rename(tmp_path / "own", tmp_path / "published")
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"1")
        Path("/dev/null").write_bytes(b"1")
        return [os.environ["TMPDIR"], str(Path(file.name).parent)]

    (tmp_path / "own").mkdir()
    assert len(set(run_apart(writes, lambda: [tmp_path / "own"], publishes=[tmp_path]))) == 1
    assert (tmp_path / "published" / "file").read_bytes() == b"1"


@pytest.mark.skipif(not os.uname().machine.startswith(("x86", "aarch")), reason="the filter knows two processors")
@pytest.mark.parametrize("network", [False, True])
def test_a_process_in_a_cage_reaches_no_socket_unless_a_scheduler_needs_it(network: bool, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        kinds = [(socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET6, socket.SOCK_DGRAM)]
        kinds += [(socket.AF_UNIX, socket.SOCK_STREAM)]

        def attempts() -> list[str]:
            connect = refused(lambda: socket.create_connection(server.getsockname()).close())
            return [connect, *(refused(lambda: socket.socket(*each).close()) for each in kinds)]  # noqa: B023

        found = run_apart(attempts, lambda: [], network=network)
    assert found == (["done"] * 4 if network else ["EACCES"] * 4)


def test_a_process_in_a_cage_takes_not_all_memory_and_not_all_time() -> None:
    def takes() -> list[Any]:
        held: list[np.ndarray] = []
        size = 1 << 30
        with contextlib.suppress(MemoryError):
            while len(held) << 30 < 1 << 46:
                held.append(np.empty(size, "u1"))  # address space alone: no page of it is touched
        import resource

        return [
            len(held) << 30,
            resource.getrlimit(resource.RLIMIT_CPU)[0],
            resource.getrlimit(resource.RLIMIT_CORE)[0],
        ]

    taken, seconds, core = run_apart(takes, lambda: [])
    assert 0 < taken < 0.8 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") + (4 << 30)
    assert 3600 <= seconds < 10**6 and core == 0


def test_a_step_ends_though_opencv_has_used_its_threads_before(tmp_path: Path) -> None:
    code = (
        "import sys, cv2, numpy as np; from rover_pipeline.cli import main; cv2.setNumThreads(4)\n"
        "cv2.GaussianBlur(np.zeros((2000, 2000, 3), 'u1'), (0, 0), 9); sys.exit(main(sys.argv[1:]))"
    )
    trace = small_trace(tmp_path / "rec", sensors=("lidar",))
    order = ("--trace", str(trace), "--request", "{}", "--output", str(trace / IMAGE / ".options-0"))
    subprocess.run([sys.executable, "-c", code, "step", IMAGE, *order], check=True, timeout=60)


@pytest.mark.parametrize("end", [signal.SIGSEGV, signal.SIGKILL, signal.SIGFPE], ids=str)
def test_a_decoder_that_dies_is_named_with_its_sample_and_the_older_result_stays(
    end: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("lidar",))
    assert step(trace) == 0
    before = {name: snapshot(trace / name, ignore=PER_PROCESS) for name in ("lidar", IMAGE)}
    with monkeypatch.context() as patched:
        begin, stop = np.fromfile(trace / "lidar" / "rng_i", "<u8")[2:4].tolist()
        deadly = (trace / "lidar" / "rng").read_bytes()[begin:stop]

        def dies(data: bytes, **_: object) -> None:
            if data == deadly:
                os.kill(os.getpid(), end)

        patched.setattr(DECODER, _before(dies))
        capsys.readouterr()
        assert step(trace) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"rover-pipeline: {trace}/{IMAGE}: the process that decodes it ended by {end.name} at ")
    assert f"{trace}/lidar/rng: sample 2: data there" in line
    (failure,) = read_failures(trace)
    assert failure.may_pass == (end == signal.SIGKILL)
    assert {name: snapshot(trace / name, ignore=PER_PROCESS) for name in before} == before
    assert step(trace) == 0
    assert not (trace / ".failed").exists() and not (trace / ".partial").exists()


def _before(call: Callable[..., object]) -> Callable[..., Any]:
    """The decoder, with something done before each sample."""
    from imagecodecs import lzma_decode

    def decode(*values: Any, **named: Any) -> Any:
        call(*values, **named)
        return lzma_decode(*values, **named)

    return decode


@confined
def test_a_decoder_that_is_taken_over_changes_no_raw_data_and_no_other_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("lidar", "radar"))
    assert step(trace, "_radar_quality") == 0
    before = snapshot(tmp_path)
    for target in (trace / "radar" / "iq", trace / "lidar" / "ts", trace / "_radar_quality" / "ts", tmp_path / "new"):
        with monkeypatch.context() as patched:
            patched.setattr(DECODER, _before(lambda *_, target=target, **__: target.write_bytes(b"")))
            assert step(trace) == 1
        assert "Permission denied" in capsys.readouterr().err
        (trace / ".failed" / f"{IMAGE}.json").unlink()
        (trace / ".failed").rmdir()
        assert snapshot(tmp_path) == before


@confined
def test_an_importer_that_is_taken_over_changes_neither_its_capture_nor_what_is_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bag = bags.write_mcap(tmp_path / "a.mcap", [imu("/imu", START + i * 10**8, (0, 0, 9.8)) for i in range(30)])
    (tmp_path / "beside").write_bytes(b"raw")
    before = snapshot(tmp_path)
    for target in (bag, tmp_path / "beside"):
        with monkeypatch.context() as patched:
            patched.setattr("rover_pipeline.importers.ros.sinks.ImuSink.add", lambda *_, to=target: to.write_bytes(b""))
            assert main(["import", "ros", str(bag), "-o", str(tmp_path / "trace")]) == 1
        assert f"{target}: Permission denied" in capsys.readouterr().err
        assert snapshot(tmp_path) == before


@pytest.mark.parametrize("name", [IMAGE, "_radar_points", "_imu_filtered"])
def test_a_result_has_the_same_bytes_in_a_cage(name: str, tmp_path: Path) -> None:
    outside, inside = (
        small_trace(tmp_path / each / "rec", 12, sensors=("lidar", "radar", "imu")) for each in ("outside", "inside")
    )
    run_step(find_step(name), outside, name, Request(), stamps=(".options-0",))
    for _ in range(2):  # over nothing, and over a result
        assert step(inside, name) == 0
        assert snapshot(inside / name, ignore=PER_PROCESS) == snapshot(outside / name, ignore=PER_PROCESS)
    assert not (inside / ".partial").exists()


def test_what_a_stranger_adds_to_an_older_result_is_not_removed_where_it_cannot_be_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("lidar",))
    assert step(trace) == 0
    (left := trace / ".partial" / f"{IMAGE}.1-0123456789abcdef").parent.mkdir()
    os.rename(trace / IMAGE, left)
    (left / "notes").write_text("of somebody")
    (trace / IMAGE).mkdir()

    def denied(*_: object) -> None:
        raise PermissionError(errno.EACCES, "denied")

    with monkeypatch.context() as patched:
        patched.setattr("rover_pipeline.format.virtual.os.rename", denied)
        discard(trace / IMAGE, left)
    assert (left / "notes").read_text() == "of somebody"


def test_an_error_in_a_cage_is_that_of_the_command_with_its_traceback() -> None:
    def fails() -> None:
        raise ValueError("no such thing")

    with pytest.raises(ReportedError, match="no such thing") as caught:
        run_apart(fails, lambda: [])
    assert caught.value.passes and "in fails" in caught.value.__notes__[0]
    with pytest.raises(DiedError, match="ended with status 3"):
        run_apart(lambda: os._exit(3), lambda: [])


@pytest.mark.system
def test_a_step_that_is_compiled_needs_no_folder_for_caches(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", 12, sensors=("radar",))
    command = [sys.executable, "-P", "-m", "rover_pipeline", "step", "_radar_points", "--trace", str(trace)]
    env = {name: value for name, value in os.environ.items() if name not in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR")}
    done = subprocess.run(
        [*command, "--output", str(trace / "_radar_points" / ".options-0")],
        env={**env, "HOME": "/dev/null", "PYTHONPATH": str(CHECKOUT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_page_of_a_user_with_a_new_home_is_made_without_a_complaint_of_matplotlib(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", 3)
    (tmp_path / "home").mkdir()
    own = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR")
    env = {name: value for name, value in os.environ.items() if name not in own}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "rover_pipeline", "step", "_report", "--trace", str(trace), "--output",
         str(trace / "_report" / ".options-0")],
        env={**env, "HOME": str(tmp_path / "home"), "PYTHONPATH": str(CHECKOUT)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "Matplotlib" not in done.stderr, done.stderr
