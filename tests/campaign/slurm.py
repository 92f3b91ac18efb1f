"""`python -m tests.campaign slurm [--traces N] [--simulated] [NAME ...]`: many recordings on a real Slurm of two nodes.

In each scenario one of the recordings is corrupt and something is killed halfway. The same command again, if it takes
one, makes everything else, with the bytes of an undisturbed run on one machine, and at most four Slurm jobs for each
recording. The script that starts Slurm is named by ROVER_PIPELINE_SLURM. No other Slurm may run on the machine then:
there is one `/etc/slurm/slurm.conf`.
"""

from __future__ import annotations

import argparse
import collections
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rover_pipeline.simulate.record import simulate
from tests.kit import small_trace
from tests.workflow.runs import command, result_bytes

#: What the noise of small recordings gives, from lidar and radar, and a page.
FROM_NOISE = "lidar_image,radar_range_doppler,sync,report"
MOST_JOBS = 4
CORRUPT = "corrupt"
#: Seconds after which a run that does not end has failed.
PATIENCE_S = 3600


class Cluster:
    """A running Slurm.

    Attributes:
        folder: of its state.
        env: in which its commands reach it.
        settings: of Snakemake. The profile asks Slurm as seldom as a shared one likes; this one is ours alone.
    """

    def __init__(self, folder: Path, accounting: bool = False) -> None:
        self.folder = folder
        self.settings = ["--seconds-between-status-checks", "1"]
        self.settings += ["--slurm-status-command", "sacct" if accounting else "squeue"]
        self.env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def ask(self, *arguments: str) -> list[str]:
        """Lines that a command of Slurm prints."""
        done = subprocess.run(arguments, env=self.env, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    def running(self) -> list[str]:
        """Numbers of jobs that run now."""
        return self.ask("squeue", "--states=running", "--noheader", "--format=%A")

    def jobs_of(self, since: int) -> collections.Counter[str]:
        """How many jobs there were for each recording, by the comment that Snakemake gives them, after a number."""
        lines = self.ask("squeue", "--states=all", "--noheader", "--format=%A|%k")
        pairs = [line.split("|", 1) for line in lines]
        return collections.Counter(comment for number, comment in pairs if int(number) > since)

    def last_job(self) -> int:
        return max((int(line) for line in self.ask("squeue", "--states=all", "--noheader", "--format=%A")), default=0)

    def lose(self, node: str) -> None:
        """The node is gone at once, with all that runs on it, and Slurm is told so, as it would notice in minutes."""
        lines = (self.folder / "pids").read_text().splitlines()
        daemons = {int(line.split()[1]) for line in lines if line.startswith(f"slurmd.{node} ")}
        jobs = set(self.ask("squeue", "--states=running", "--noheader", f"--nodelist={node}", "--format=%A"))
        steps = {f"slurmstepd: [{job}." for job in jobs}
        daemons |= {pid for pid, _, text in _processes() if any(text.startswith(step) for step in steps)}
        for victim in _with_children(daemons):
            _kill(victim)
        self.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=lost")


def _processes() -> list[tuple[int, int, str]]:
    """Number, parent and command line of every process."""
    done = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in done.stdout.splitlines()[1:]]
    return [(int(row[0]), int(row[1]), row[2] if len(row) > 2 else "") for row in rows]


def _with_children(roots: set[int]) -> set[int]:
    """Processes and all that they have started."""
    found, processes = set(roots), _processes()
    while more := {pid for pid, parent, _ in processes if parent in found} - found:
        found |= more
    return found


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


@contextmanager
def cluster(accounting: bool = False, cpus: int = 2) -> Iterator[Cluster]:
    """A Slurm of two nodes with so many processors each, on ports of its own, which ends with the block."""
    start = Path(os.environ["ROVER_PIPELINE_SLURM"])
    folder = Path(tempfile.mkdtemp(prefix="slurm-campaign-"))
    folder.chmod(0o755)
    settings = {**os.environ, "SLURM_LOCAL_PORT": "36817", "SLURM_LOCAL_CPUS": str(cpus)}
    settings["SLURM_LOCAL_ACCOUNTING"] = str(int(accounting))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # such as of `timeout`: no daemon stays
    try:
        subprocess.run([str(start), str(folder)], env=settings, check=True, stdout=subprocess.DEVNULL)
        yield Cluster(folder, accounting)
    finally:
        subprocess.run([str(start.with_name("stop")), str(folder)], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)


class Fleet:
    """The recordings of the campaign, and what an undisturbed run on one machine makes of them."""

    def __init__(self, folder: Path, count: int, simulated: bool, outputs: str = "") -> None:
        self.folder, self.outputs = folder, outputs or ("default" if simulated else FROM_NOISE)
        self.raw = folder / "raw"
        self.names = [f"t{number:04d}" for number in range(count)]
        for number, name in enumerate(self.names):
            if simulated:
                simulate(self.raw / name, preset="tiny", duration=0.5, seed=number)
            else:
                small_trace(self.raw / name, seed=number)
        shutil.copytree(self.raw / self.names[0], self.raw / CORRUPT)
        (self.raw / CORRUPT / "radar" / "ts").write_bytes(b"")
        self.expected: dict[str, dict[str, bytes]] = {}

    def run(self, name: str, *arguments: str, profile: str = "cluster", env: dict[str, str], **config: object) -> Run:
        return Run(self, self.folder / name, arguments, profile, env, config)

    def undisturbed(self) -> None:
        """Make everything on this machine, step by step."""
        run = self.run("local", profile="local", env=dict(os.environ), plan="steps")
        status, told = run.wait()
        assert status == 1 and CORRUPT in told, told
        self.expected = {name: result_bytes(run.results / name) for name in self.names}
        lacking = [name for name, files in self.expected.items() if not files]
        assert not lacking, f"the undisturbed run made nothing of {lacking}: {told}"

    def differing(self, results: Path) -> list[str]:
        """Recordings whose results are not those of the undisturbed run."""
        return [name for name in self.names if result_bytes(results / name) != self.expected[name]]


class Run:
    """A run of the workflow that goes on in the background."""

    def __init__(
        self,
        fleet: Fleet,
        folder: Path,
        arguments: tuple[str, ...],
        profile: str,
        env: dict[str, str],
        config: dict[str, object],
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.fleet, self.results = fleet, folder / "out"
        self.log = folder / f"told-{time.time_ns()}.txt"
        settings = {"outputs": fleet.outputs, "output_root": str(self.results), **config}
        with self.log.open("w") as file:
            self.process = subprocess.Popen(
                command(fleet.raw, *arguments, config=settings, profile=profile),
                cwd=folder,
                env=env,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def done(self) -> int:
        """Recordings whose page is there."""
        return len(list(self.results.glob("t*/_report/summary.json")))

    def reach(self, share: float) -> None:
        """Wait until so much is done, and a job runs."""
        end = time.monotonic() + PATIENCE_S
        while self.done() < share * len(self.fleet.names):
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()
            time.sleep(0.5)

    def wait(self) -> tuple[int, str]:
        status = self.process.wait(PATIENCE_S)
        return status, self.log.read_text()


def lost_node(slurm: Cluster, fleet: Fleet) -> tuple[Path, str]:
    """One of two nodes is lost halfway; its jobs are submitted again."""
    run = fleet.run("lost_node", *slurm.settings, env=slurm.env)
    run.reach(0.5)
    slurm.lose("n2")
    status, told = run.wait()
    assert status == 1, told
    return run.results, told


def cancelled_jobs(slurm: Cluster, fleet: Fleet) -> tuple[Path, str]:
    """All jobs that run at some moment are cancelled; they are submitted again."""
    run = fleet.run("cancelled_jobs", *slurm.settings, env=slurm.env)
    run.reach(0.3)
    while not (jobs := slurm.running()):
        time.sleep(0.2)
    slurm.ask("scancel", *jobs)
    status, told = run.wait()
    assert status == 1, told
    return run.results, told


def killed_head(slurm: Cluster, fleet: Fleet) -> tuple[Path, str]:
    """Snakemake itself is killed while jobs run. The same command again, at once, works beside the orphans."""
    run = fleet.run("killed_head", *slurm.settings, env=slurm.env)
    run.reach(0.3)
    os.killpg(run.process.pid, signal.SIGKILL)
    run.process.wait()
    again = fleet.run("killed_head", *slurm.settings, env=slurm.env)
    status, told = again.wait()
    assert status == 1, told
    while slurm.running():  # orphans that had begun end by themselves, and change nothing
        time.sleep(0.5)
    return again.results, told


def more_nodes(slurm: Cluster, fleet: Fleet) -> tuple[Path, str]:
    """The same work on one node of one processor, and on two. What this tells depends on what else the machine does."""
    took = []
    for state in ("drain", "resume"):
        slurm.ask("scontrol", "update", "nodename=n2", f"state={state}", "reason=measuring")
        begin = time.monotonic()
        run = fleet.run(f"more_nodes_{state}", *slurm.settings, "--max-threads", "1", env=slurm.env)
        status, told = run.wait()
        assert status == 1, told
        took.append(time.monotonic() - begin)
    load = os.getloadavg()[1]
    print(
        f"one node {took[0]:.0f} s, two {took[1]:.0f} s: {took[0] / took[1]:.2f}x, at a load of {load:.1f}", flush=True
    )
    return run.results, told


SCENARIOS: dict[str, Callable[[Cluster, Fleet], tuple[Path, str]]] = {
    each.__name__: each for each in (lost_node, cancelled_jobs, killed_head, more_nodes)
}


def judge(slurm: Cluster, fleet: Fleet, results: Path, told: str, since: int) -> list[str]:
    """What is wrong after a scenario."""
    findings = [f"{name}: other bytes than undisturbed" for name in fleet.differing(results)]
    table = told.rpartition("rover-pipeline: failed:\n")[2].splitlines()
    rows = [line for line in table if line.startswith("  ")]
    findings += [f"the table tells of more than the corrupt recording: {row}" for row in rows if CORRUPT not in row]
    findings += [] if any("holds no samples" in row for row in rows) else [f"why it is corrupt is not told: {rows}"]
    findings += [f"{word} on the terminal" for word in ("RuleException", "Traceback", "--request") if word in told]
    most = slurm.jobs_of(since).most_common(1)
    findings += [f"{count} Slurm jobs: {comment}" for comment, count in most if count > MOST_JOBS]
    findings += [f"{path}: left behind" for path in results.glob("*/.partial/*")]
    return findings


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign slurm", description=__doc__)
    parser.add_argument("--traces", type=int, default=200, metavar="N")
    parser.add_argument("--simulated", action="store_true", help="recordings of a world, with all default outputs")
    parser.add_argument("--accounting", action="store_true", help="with slurmdbd, so that sacct answers")
    parser.add_argument(
        "--outputs",
        default="",
        help="instead of what each kind of recording gives; one of the radar and report among them",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SCENARIOS)} (default: all)")
    given = parser.parse_args(arguments)
    bad = False
    with tempfile.TemporaryDirectory(prefix="campaign-", dir=os.environ.get("TMPDIR")) as folder:
        fleet = Fleet(Path(folder), given.traces, given.simulated, given.outputs)
        begin = time.monotonic()
        fleet.undisturbed()
        print(f"undisturbed, on this machine: {time.monotonic() - begin:.0f} s", flush=True)
        for name in given.names or SCENARIOS:
            with cluster(given.accounting, cpus=1 if name == more_nodes.__name__ else 2) as slurm:
                begin, since = time.monotonic(), slurm.last_job()
                results, told = SCENARIOS[name](slurm, fleet)
                findings = judge(slurm, fleet, results, told, since)
                jobs = slurm.jobs_of(since)
            took = f"{given.traces} recordings and a corrupt one, {sum(jobs.values())} Slurm jobs"
            print(f"{name}: {took}, {time.monotonic() - begin:.0f} s, {len(findings)} findings", flush=True)
            for finding in findings:
                print(f"  {finding}", flush=True)
            bad = bad or bool(findings)
            if findings:
                print(told, flush=True)
    sys.exit(1 if bad else 0)
