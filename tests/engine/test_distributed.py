"""A Dask scheduler, its workers and late tasks: whatever they do, a run ends with its result or with one line."""

from __future__ import annotations

import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rover_pipeline.engine import dask_distributed, identity
from rover_pipeline.engine.dask_distributed import _Remote
from rover_pipeline.engine.inputs import open_inputs
from rover_pipeline.engine.parallel import Failure, ordered_map
from rover_pipeline.engine.task import FrameTask
from rover_pipeline.errors import RoverError
from rover_pipeline.format.channels.base import allocate, write_at
from rover_pipeline.format.sensor import TS_SPEC, VALID, VALID_SPEC
from rover_pipeline.options import DaskOptions, InputOptions
from rover_pipeline.table import find_step
from tests.campaign.scenarios import a_lost_worker_costs_the_task_that_it_does, play, silent_peer
from tests.kit import ROOT, small_trace, snapshot
from tests.toy import GainOptions

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A scheduler without workers, in this process."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster:
        yield cluster


@pytest.fixture
def fresh() -> Iterator[None]:
    """No digest of a source is remembered from before, nor afterwards."""
    caches = (identity._digest_of_module, identity._digest_of_file, identity._source, identity._imports)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def task_of(trace: Path, scratch: Path, factor: float) -> FrameTask:
    """The task of a run whose scratch folder has its channels."""
    step, options = find_step("tests.toy:gain"), GainOptions(factor=factor)
    task = FrameTask(step, open_inputs(step, trace, InputOptions(), options), options, scratch, {}, False)
    task.probe()
    scratch.mkdir()
    for name, spec in {VALID: VALID_SPEC, **task.specs}.items():
        allocate(scratch / name, spec, task.inputs.count)
    return task


def test_a_task_that_outlives_its_run_writes_nothing(tmp_path: Path) -> None:
    trace, first = small_trace(tmp_path / "trace", sensors=("radar",)), tmp_path / "first"
    late = pickle.dumps(task_of(trace, first, 2.0))
    for path in first.iterdir():
        path.unlink()
    first.rmdir()
    task_of(trace, tmp_path / "second", 3.0)
    before = snapshot(tmp_path)
    task: FrameTask = pickle.loads(late)
    for frames in ((0, 1), (2, 6)):
        with pytest.raises(RoverError, match=r"first: is not there on .*; the run .* has ended.* Nothing was written"):
            task(frames)
    # The same when the scratch folder goes away while the task computes.
    result, readable = {"power": np.zeros((1, *task.specs["power"].shape), "f4")}, np.ones(1, bool)
    with pytest.raises(RoverError, match="Nothing was written"):
        task.write(2, result, readable)
    assert snapshot(tmp_path) == before


def test_a_slice_is_written_only_into_a_file_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_at(tmp_path / "ts", TS_SPEC, 0, np.zeros(3))
    assert not list(tmp_path.iterdir())


def test_a_worker_of_other_versions_refuses_the_work_before_it_loads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributed.get_worker", lambda: SimpleNamespace(address="tcp://10.0.0.7:1234"))
    for name, here in identity.identity().items():
        refused = _Remote(b"not a pickle", {**identity.identity(), name: "0.0.1"})(3)
        assert isinstance(refused, Failure)
        assert str(refused.error).startswith(
            f"dask.scheduler: worker tcp://10.0.0.7:1234 has {name} {here} instead of 0.0.1; install"
        )
    unloadable = _Remote(b"not a pickle", {**identity.identity(), "a library that the worker lacks": "1"})(3)
    assert isinstance(unloadable, Failure) and "cannot load the work" in str(unloadable.error)
    loaded = _Remote(pickle.dumps(abs), identity.identity())(-3)
    assert loaded == 3


@pytest.mark.parametrize("package", [False, True])
def test_a_user_s_module_is_known_by_its_sources_and_by_those_it_imports(
    package: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    name, here = ("mine12.steps", "from . import helper12\n") if package else ("mine12", "import helper12\n")
    digests = []
    for number, (edited, content) in enumerate(
        [("nothing", ""), ("steps", "a = 1\n"), ("helper", "a = 1\n"), ("stranger", "a = 1\n"), ("deep", "a = 1\n")]
    ):
        root = tmp_path / str(number)
        folder = root / "mine12" if package else root
        folder.mkdir(parents=True)
        sources = {
            "steps" if package else "mine12": f"import numpy as np\nfrom rover_pipeline.steps import step\n{here}",
            "helper12": "def late():\n    from deep12 import values\n",
            "stranger": "",
        }
        for file, text in sources.items():
            extra = content if file.startswith(edited) or (edited == "steps" and file == "mine12") else ""
            (folder / f"{file}.py").write_text(text + extra)
        (root / "deep12.py").write_text(content if edited == "deep" else "")
        if package:
            (folder / "__init__.py").touch()
        monkeypatch.syspath_prepend(root)
        for cache in (identity._digest_of_module, identity._source, identity._imports):
            cache.cache_clear()
        digests.append(identity.identity([name])[identity.MODULE + name])
        monkeypatch.undo()
        for module in [each for each in sys.modules if each.partition(".")[0] in ("mine12", "helper12", "deep12")]:
            del sys.modules[module]
    nothing, steps, helper, stranger, deep = digests
    assert nothing == stranger and len({nothing, steps, helper, deep}) == 4


def test_a_module_that_is_nowhere_is_said_to_be_nowhere(fresh: None) -> None:
    assert identity.identity(["nowhere12.steps"])["module nowhere12.steps"] == "(not found)"


def test_a_module_that_is_not_in_its_package_is_not_found_where_the_package_is(fresh: None) -> None:
    assert identity.identity(["tests.nowhere12"])["module tests.nowhere12"] == "(not found)"


def test_a_scheduler_without_workers_is_told_and_then_an_error(cluster: Any, capfd: pytest.CaptureFixture[str]) -> None:
    address = cluster.scheduler_address
    with pytest.raises(RoverError, match=rf"{address} had no worker for 0.6 s; start some with `dask worker"):
        list(ordered_map(abs, [-1], dask=DaskOptions(scheduler=address, worker_timeout=0.6)))
    assert capfd.readouterr().err == f"waiting for workers of {address}, none is there\n"


class _UnsendableError(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("cannot be pickled")


def _fail(item: int) -> int:
    if item == 5:
        raise _UnsendableError("sample 5 is bad")
    return item


def test_an_error_that_cannot_be_sent_comes_back_as_its_message(cluster: Any) -> None:
    options = DaskOptions(scheduler=cluster.scheduler_address)
    cluster.scale(1)
    assert list(ordered_map(_fail, range(4), dask=options)) == [0, 1, 2, 3]
    # This worker is in the same process, and sends nothing.
    with pytest.raises(_UnsendableError, match="sample 5 is bad"):
        list(ordered_map(_fail, range(9), dask=options))
    sent = pickle.loads(pickle.dumps(Failure(_UnsendableError("sample 5 is bad"))))
    assert isinstance(sent.error, RoverError) and "_UnsendableError: sample 5 is bad" in str(sent.error)


def test_a_scheduler_that_says_nothing_is_not_waited_for_for_ever() -> None:
    begin = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(RoverError, match=rf"{address} did not answer for 0.5 s"):
            list(ordered_map(abs, [-1], dask=DaskOptions(scheduler=address, connect_timeout=0.5)))
    assert time.monotonic() < begin + 10


_CLUSTER = """
import time
from distributed import LocalCluster
with LocalCluster(
    n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0"
) as cluster:
    print(cluster.scheduler_address, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("how", "text"), [(signal.SIGKILL, "connection to .* was lost"), (signal.SIGSTOP, "did not answer for 1 s")]
)
def test_a_scheduler_that_dies_or_freezes_ends_the_run_with_one_line(
    how: signal.Signals, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-c", _CLUSTER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            results = ordered_map(time.sleep, [0, 60], dask=DaskOptions(scheduler=address, connect_timeout=1))
            next(results)
            process.send_signal(how)
            with pytest.raises(RoverError, match=text) as caught:
                next(results)
        finally:
            process.kill()
    assert address in str(caught.value) and capfd.readouterr().err == ""


def test_a_lost_connection_is_named_as_such_before_the_client_knows_of_it() -> None:
    def broken(*_: object, **__: object) -> None:
        raise ConnectionResetError(104, "Connection reset by peer")

    client = SimpleNamespace(status="running", sync=broken, map=broken, scheduler=SimpleNamespace(ncores=None))
    scheduler = dask_distributed._Scheduler(client, "tcp://10.0.0.7:8786", DaskOptions())
    with pytest.raises(RoverError, match=r"the connection to tcp://10.0.0.7:8786 was lost"):
        scheduler.result(SimpleNamespace(done=lambda: True, result=broken))
    with pytest.raises(RoverError, match=r"the connection to tcp://10.0.0.7:8786 was lost"):
        scheduler.submit(abs, [1])


def test_dask_stays_silent_after_the_work(cluster: Any, capfd: pytest.CaptureFixture[str]) -> None:
    import logging

    dask_distributed._silence()
    for name in ("distributed.core", "distributed.comm.tcp", "tornado.application", "asyncio"):
        logging.getLogger(name).error("lost a connection")
    assert "lost a connection" not in capfd.readouterr().err


def test_a_peer_that_never_answers_ends_a_real_run_and_loses_nothing() -> None:
    play(silent_peer)


def test_a_worker_that_is_lost_costs_the_task_that_it_does_and_none_that_it_has_finished() -> None:
    play(a_lost_worker_costs_the_task_that_it_does)
