"""`python -m tests.campaign scenarios [NAME ...]`: what can happen to a run that several processes share.

Each scenario has a recording of its own, and real schedulers, workers and commands. After each of them: the raw bytes
are unchanged; the result is whole, absent or the older one; there is at most one line of error, in time; no process is
left; and a plain run afterwards gives the bytes of an undisturbed one.
"""

from __future__ import annotations

import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.campaign.gated import DIE, FRAME, GATE
from tests.campaign.laboratory import PYTHONPATH, SOON, Laboratory, wait_until
from tests.kit import ROOT


def silent_peer(lab: Laboratory) -> None:
    """The address is that of a program that accepts the connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        lab.address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        lab.remote(2).fails(lab.address, "did not answer for 4 s")
    lab.check(factors=[0])


def peer_of_another_protocol(lab: Laboratory) -> None:
    """The address is that of a program that answers something else."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    peer.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" * 20)

        thread = threading.Thread(target=answer)
        thread.start()
        lab.address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        command = lab.remote(2)
        command.fails(lab.address)
        server.shutdown(socket.SHUT_RDWR)
    thread.join()
    lab.check(factors=[0])


def nobody_at_the_address(lab: Laboratory) -> None:
    """Nothing listens there. The older result stays."""
    lab.run(2).succeeds()
    lab.address = "tcp://127.0.0.1:9"
    lab.remote(3).fails("no scheduler answers at tcp://127.0.0.1:9|did not answer", limit=15)
    lab.check(factors=[2])


def no_worker(lab: Laboratory) -> None:
    """A scheduler without workers: a note soon, an error after the limit."""
    lab.scheduler()
    command = lab.remote(2)
    wait_until(lambda: f"waiting for workers of {lab.address}, none is there" in command.stderr)
    command.fails(lab.address, "had no worker for 4 s")
    lab.check(factors=[0])


def first_worker_comes_late(lab: Laboratory) -> None:
    """A worker that comes within the limit does the work."""
    lab.scheduler()
    command = lab.run(2, dask={"scheduler": lab.address, "worker_timeout": 60})
    wait_until(lambda: "none is there" in command.stderr)
    lab.worker()
    command.succeeds()
    lab.check(factors=[2])


def last_worker_dies(lab: Laboratory) -> None:
    """The only worker is killed in the middle of a task, and none comes."""
    lab.scheduler()
    gate = lab.gate()
    worker = lab.worker(env={GATE: str(gate)})
    command = lab.remote(2)
    wait_until(lambda: list(gate.glob("began-*")))
    worker.kill()
    command.fails(lab.address, "had no worker for 4 s")
    lab.check(factors=[0])


def worker_dies_and_another_takes_over(lab: Laboratory) -> None:
    """A worker is killed in the middle of a task; another one does it again."""
    lab.scheduler()
    gate = lab.gate()
    worker = lab.worker(env={GATE: str(gate)})
    command = lab.run(2, dask={"scheduler": lab.address, "worker_timeout": 60})
    wait_until(lambda: list(gate.glob("began-*")))
    worker.kill()
    lab.worker()
    command.succeeds()
    lab.check(factors=[2])


def a_lost_worker_costs_the_task_that_it_does(lab: Laboratory) -> None:
    """A worker that has finished tasks is killed while an earlier task goes on: nobody does the finished ones again."""
    lab.scheduler()
    gate = lab.gate()
    workers = [lab.worker(env={GATE: str(gate)}) for _ in range(2)]
    command = lab.run(2, dask={"scheduler": lab.address, "worker_timeout": 60})
    wait_until(lambda: list(gate.glob("began-*")))
    wait_until(lambda: list(gate.glob("did-5-*")))  # the last frame
    time.sleep(3)  # finished results are fetched every second
    lab.lose(next(worker for worker in workers if not (gate / f"began-{worker.pid}").exists()))
    (gate / "open").touch()
    command.succeeds()
    lab.check(factors=[2])
    frames = [path.name.split("-")[1] for path in gate.glob("did-*")]
    assert sorted(frames) == sorted(set(frames)), f"done more than once: {sorted(frames)}"


def every_worker_dies_of_the_same_task(lab: Laboratory) -> None:
    """A task that kills its worker ends the run when it has killed a few of them."""
    lab.scheduler(env={"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"})
    for _ in range(3):
        lab.worker(env={DIE: "yes"})
    lab.remote(2).fails(lab.address, "died again and again")
    lab.check(factors=[0])


def scheduler_is_killed(lab: Laboratory) -> None:
    """The scheduler is killed in the middle of a run. The older result stays."""
    lab.run(3).succeeds()
    scheduler, gate = lab.scheduler(), lab.gate()
    lab.worker(env={GATE: str(gate)})
    command = lab.remote(2)
    wait_until(lambda: list(gate.glob("began-*")))
    scheduler.kill()
    command.fails(lab.address, "the connection to .* was lost", limit=10)
    lab.check(factors=[3])


def something_is_killed_at_many_moments(lab: Laboratory) -> None:
    """The scheduler or the only worker is killed at some moment of a run, from the start of its command to its end."""
    for number in range(16):
        scheduler = lab.scheduler()
        worker = lab.worker()
        command = lab.remote(2 + number % 2)
        time.sleep(0.4 + 0.15 * number)
        (scheduler if number % 4 < 2 else worker).kill()
        if command.process.wait(SOON) == 0:
            command.succeeds()
        else:
            command.fails(lab.address)
        lab.check(factors=[0, 2, 3])
        scheduler.kill()
        worker.kill()


def scheduler_is_frozen(lab: Laboratory) -> None:
    """The scheduler stops to answer in the middle of a run, but its connections stay."""
    scheduler, gate = lab.scheduler(), lab.gate()
    lab.worker(env={GATE: str(gate)})
    command = lab.remote(2)
    wait_until(lambda: list(gate.glob("began-*")))
    scheduler.send_signal(signal.SIGSTOP)
    command.fails(lab.address, "did not answer for 4 s", limit=15)
    lab.check(factors=[0])


def task_outlives_its_client(lab: Laboratory) -> None:
    """A client is killed. Its task ends while the next run, with other options, works in its own scratch folder."""
    lab.scheduler()
    first, second = lab.gate(), lab.gate()
    lab.worker(env={GATE: str(first)})
    command = lab.remote(2)
    wait_until(lambda: list(first.glob("began-*")))
    command.kill()
    following = lab.run(3, env={GATE: str(second), FRAME: "5"})  # waits where it has done the frame of the late task
    wait_until(lambda: list(second.glob("began-*")))
    time.sleep(1)
    (first / "open").touch()
    wait_until(lambda: list(first.glob("ended-*")))
    time.sleep(1)  # the task has left the step's function, and would write now
    (second / "open").touch()
    following.succeeds()
    lab.check(factors=[3])


def task_outlives_its_client_on_the_same_worker(lab: Laboratory) -> None:
    """The same where the next run uses the same scheduler: its tasks and the late one share the workers."""
    lab.scheduler()
    gate = lab.gate()
    lab.worker(env={GATE: str(gate)})
    command = lab.remote(2)
    wait_until(lambda: list(gate.glob("began-*")))
    command.kill()
    following = lab.remote(3)
    time.sleep(2)
    (gate / "open").touch()
    following.succeeds()
    lab.check(factors=[3])


def worker_of_another_version(lab: Laboratory) -> None:
    """The worker's package has another version, or the same version and other sources."""
    lab.scheduler()
    for number, (file, old, new) in enumerate(
        (
            ("__init__.py", '__version__ = "', '__version__ = "9.'),
            ("radar/steps.py", "from __future__", "# Edited.\nfrom __future__"),
        )
    ):
        other = lab.folder / f"other-{number}"
        shutil.copytree(ROOT / "rover_pipeline", other / "rover_pipeline", ignore=shutil.ignore_patterns("__pycache__"))
        source = other / "rover_pipeline" / file
        text = source.read_text()
        assert old in text
        source.write_text(text.replace(old, new, 1))
        worker = lab.worker(env={PYTHONPATH: str(other)})
        lab.remote(2).fails("worker tcp://127.0.0.1", r"has rover-pipeline \S+ \(sources \w+\) instead of")
        lab.lose(worker)
    lab.check(factors=[0])


def worker_of_another_user_module(lab: Laboratory) -> None:
    """The worker's copy of the module with the user's step was edited, or is not there."""
    lab.scheduler()
    for edited in (True, False):
        other = lab.folder / f"tests-{edited}"
        (other / "tests" / "campaign").mkdir(parents=True)
        (other / "tests" / "__init__.py").touch()
        if edited:
            for name in ("campaign/__init__.py", "kit.py"):
                shutil.copy(ROOT / "tests" / name, other / "tests" / name)
            text = (ROOT / "tests" / "campaign" / "gated.py").read_text()
            (other / "tests" / "campaign" / "gated.py").write_text(text.replace("* options.factor", "+ options.factor"))
        worker = lab.worker(env={PYTHONPATH: str(other)})
        found = r"\(sources \w+\)" if edited else r"\(not found\)"
        lab.remote(2).fails("worker tcp://127.0.0.1", rf"has module tests.campaign.gated {found} instead of")
        lab.lose(worker)
    lab.check(factors=[0])


def worker_without_the_package(lab: Laboratory) -> None:
    """Neither the scheduler nor the worker can import the package."""
    broken = lab.folder / "broken" / "rover_pipeline"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('is not installed')\n")
    lab.scheduler(env={PYTHONPATH: str(broken.parent)})
    lab.worker(env={PYTHONPATH: str(broken.parent)})
    lab.remote(2).fails(lab.address, "cannot load the work", "is not installed")
    lab.check(factors=[0])


def four_at_once(lab: Laboratory) -> None:
    """Four runs of the same command at once, on threads and on a scheduler."""
    lab.scheduler()
    lab.worker()
    commands = [run(2) for run in (lab.run, lab.remote, lab.run, lab.remote)]
    for command in commands:
        command.succeeds(2 * SOON)
    lab.check(factors=[2])


def two_with_other_options_at_once(lab: Laboratory) -> None:
    """Two runs with different options at once: the result is that of one of them, and says of which."""
    lab.scheduler()
    lab.worker()
    commands = [lab.remote(2), lab.remote(3)]
    for command in commands:
        command.succeeds(2 * SOON)
    lab.check(factors=[2, 3])


def clock_that_steps_back(lab: Laboratory) -> None:
    """The clock of a command on threads steps back by an hour again and again; on a scheduler, those of the command and
    of its worker do so once, while they work.

    Only once, because `distributed` sends its messages in batches, each at a time of the wall clock: a step back within
    the few milliseconds of a batch holds its messages back for as long as the step is, which nobody else can mend.
    """
    folder = lab.folder / "clock"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_CLOCK)
    lab.run(2, env={PYTHONPATH: str(folder), _STEPS: "calls() % 50 > 25"}).succeeds()
    lab.check(factors=[2])
    lab.scheduler()
    gate = lab.gate()
    lab.worker(env={PYTHONPATH: str(folder), _STEPS: _GATED, GATE: str(gate)})
    command = lab.remote(3, env={PYTHONPATH: str(folder), _STEPS: _GATED, GATE: str(gate)})
    wait_until(lambda: list(gate.glob("began-*")))
    time.sleep(1)
    (gate / "stepped").touch()
    time.sleep(1)
    (gate / "open").touch()
    command.succeeds()
    lab.check(factors=[3])


#: Variable with the condition under which the clock of `_CLOCK` is an hour behind.
_STEPS = "CAMPAIGN_CLOCK_STEPS"
#: The condition that the scenario has let it step.
_GATED = f"os.path.exists(os.environ[{GATE!r}] + '/stepped')"
_CLOCK = f"""
import itertools, os, time
seconds, calls, behind = time.time, itertools.count().__next__, compile(os.environ[{_STEPS!r}], "clock", "eval")
def stepping():
    return seconds() - 3600 * bool(eval(behind))
time.time = stepping
time.time_ns = lambda: int(stepping() * 1e9)
"""


def process_of_the_pool_dies(lab: Laboratory) -> None:
    """A process of a step's own pool is killed in the middle of its work, as a full memory does."""
    lab.run(2, step="pooled", env={DIE: "yes"}).fails("was killed", "too little memory")
    assert not (lab.trace / "_pooled").exists()
    lab.run(2, step="pooled").succeeds()
    shutil.rmtree(lab.trace / "_pooled")
    lab.check(factors=[0])


SCENARIOS: tuple[Callable[[Laboratory], None], ...] = (
    silent_peer,
    peer_of_another_protocol,
    nobody_at_the_address,
    no_worker,
    first_worker_comes_late,
    last_worker_dies,
    worker_dies_and_another_takes_over,
    a_lost_worker_costs_the_task_that_it_does,
    every_worker_dies_of_the_same_task,
    scheduler_is_killed,
    something_is_killed_at_many_moments,
    scheduler_is_frozen,
    task_outlives_its_client,
    task_outlives_its_client_on_the_same_worker,
    worker_of_another_version,
    worker_of_another_user_module,
    worker_without_the_package,
    four_at_once,
    two_with_other_options_at_once,
    clock_that_steps_back,
    process_of_the_pool_dies,
)


def play(scenario: Callable[[Laboratory], None]) -> float:
    """Play a scenario; the seconds that it took.

    Raises:
        AssertionError: something is not as it must be.
    """
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="scenario-") as name, Laboratory(Path(name)) as lab:
        scenario(lab)
        lab.run(2).succeeds()
        lab.check(factors=[2])
    return time.monotonic() - begin


def main(argv: Sequence[str]) -> None:
    """Play the scenarios of these names, all unless given; the exit status is 0 only when all are as they must be."""
    chosen = [scenario for scenario in SCENARIOS if not argv or scenario.__name__ in argv]
    failed = 0
    for scenario in chosen:
        try:
            print(f"{scenario.__name__}: {play(scenario):.1f} s", flush=True)
        except AssertionError:
            failed += 1
            print(f"{scenario.__name__}: FAILED\n{traceback.format_exc()}", flush=True)
    print(f"{len(chosen)} scenarios, {len(chosen) - failed} as they must be, {failed} not")
    sys.exit(1 if failed or not chosen else 0)
