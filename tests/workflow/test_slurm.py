"""The cluster profile on a real Slurm of two nodes, brought up on this machine and taken down again.

The script that does so is named by ROVER_PIPELINE_SLURM; it needs Debian's Slurm packages, or root to install them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from platformdirs import user_cache_path

from rover_pipeline.format.sensor import Sensor
from rover_pipeline.options import DASK_VARIABLE
from rover_pipeline.simulate.record import simulate
from tests.campaign.gated import GATE
from tests.campaign.laboratory import Laboratory, wait_until
from tests.conftest import CHECKOUT
from tests.kit import WHOLE, small_trace
from tests.workflow.runs import result_bytes, snakemake

pytestmark = pytest.mark.system

#: Whole recordings, beside which one is cut off.
TRACES = 6 if WHOLE else 3
#: The profile asks Slurm as seldom as a shared one likes; this one is ours alone.
QUICK = ("--seconds-between-status-checks", "1")


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    """Environment in which `sbatch` and `squeue` reach the cluster."""
    start = Path(os.environ.get("ROVER_PIPELINE_SLURM", CHECKOUT.parent / "shared" / "slurm" / "start"))
    if not start.exists():
        reason = f"no script to start Slurm at {start}; set ROVER_PIPELINE_SLURM"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    # Not below pytest's folder, which only its owner may enter: munge wants its socket where all may reach it.
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)
    # Ports of its own: a cluster that somebody keeps on the usual ones stays as it is.
    settings = {**os.environ, "SLURM_LOCAL_PORT": "26817"}
    try:
        started = subprocess.run([str(start), str(folder)], env=settings, capture_output=True, text=True, timeout=300)
        assert started.returncode == 0, started.stdout + started.stderr
        yield {"SLURM_CONF": str(folder / "slurm.conf")}
    finally:
        subprocess.run([str(start.with_name("stop")), str(folder)], capture_output=True, timeout=120, check=True)
        shutil.rmtree(folder)


def test_traces_use_both_nodes_and_give_local_bytes_while_one_fails_audibly(
    slurm: dict[str, str], tmp_path: Path
) -> None:
    cluster, local = tmp_path / "cluster", tmp_path / "local"
    for seed in range(TRACES):
        small_trace(cluster / f"t{seed}", seed=seed)
    shutil.copytree(cluster, local)
    cut_off = small_trace(cluster / "cut_off") / "radar" / "ts"
    cut_off.write_bytes(b"")

    # Two rules of one group. Work on more of them takes long: every job of a group starts Snakemake twice.
    outputs = {"outputs": "radar_points,radar_velocity"}
    done = snakemake(tmp_path, cluster, *QUICK, "--retries", "0", config=outputs, profile="cluster", env=slurm)
    assert done.returncode != 0, done.stderr
    failures = done.stderr.partition("rover-pipeline: failed:\n")[2].splitlines()
    assert failures and f"_radar_points  {cut_off}: holds no samples" in failures[0], done.stderr
    assert not any(line.startswith("  ") for line in failures[1:]), "what follows from it is not at fault"
    assert not (cluster / "cut_off" / "_radar_points" / "meta.json").exists()

    assert snakemake(tmp_path, local, config=outputs).returncode == 0
    for seed in range(TRACES):
        made = result_bytes(cluster / f"t{seed}")
        assert made
        assert made == result_bytes(local / f"t{seed}")
    asked = ["squeue", "--states=all", "--noheader", "--format=%N"]
    shown = subprocess.run(asked, env={**os.environ, **slurm}, capture_output=True, text=True, check=True)
    nodes = shown.stdout.split()
    assert set(nodes) == {"n1", "n2"}
    assert len(nodes) == TRACES + 1, "what follows at once shares a Slurm job"


def jobs(slurm: dict[str, str], states: str = "pending,running") -> list[str]:
    """Numbers of jobs in some states."""
    asked = ["squeue", f"--states={states}", "--noheader", "--format=%A"]
    shown = subprocess.run(asked, env={**os.environ, **slurm}, capture_output=True, text=True, check=True)
    return shown.stdout.split()


def test_workers_of_a_step_are_slurm_jobs_and_a_lost_one_costs_its_chunk(slurm: dict[str, str], tmp_path: Path) -> None:
    env = {**slurm, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    dask = {"slurm": {"jobs": 2, "cores": 1, "memory": "1 GiB", "hours": 0.2}}
    with Laboratory(tmp_path) as lab:
        gate = lab.gate()
        command = lab.run(2, dask=dask, env={**env, GATE: str(gate)})
        wait_until(lambda: list(gate.glob("began-*")), 120)
        holder = next(gate.glob("began-*")).name.removeprefix("began-")
        environ = Path("/proc", holder, "environ").read_bytes().split(b"\0")
        job = next(entry for entry in environ if entry.startswith(b"SLURM_JOB_ID=")).partition(b"=")[2].decode()
        assert job in jobs(slurm)
        subprocess.run(["scancel", job], env={**os.environ, **slurm}, check=True)
        wait_until(lambda: len(list(gate.glob("began-*"))) > 1, 120)  # another worker has the frame
        (gate / "open").touch()
        command.succeeds(120)
        lab.check(factors=[2])
        assert "asking Slurm for 2 jobs" in command.stderr
        wait_until(lambda: not jobs(slurm), 60)
        # Work that holds the interpreter's lock, as parts of the odometry do, goes the same way.
        lab.run(3, step="pooled", dask=dask, env=env).succeeds(120)
        remote = Sensor(lab.trace / "_pooled").channel("sum").read()
        lab.run(4, step="pooled").succeeds()
        np.testing.assert_array_equal(Sensor(lab.trace / "_pooled").channel("sum").read() / 4, remote / 3)


def test_parts_of_the_odometry_have_the_same_bytes_from_slurm_jobs_of_which_one_is_lost(
    slurm: dict[str, str], tmp_path: Path
) -> None:
    trace, alone = tmp_path / "trace", tmp_path / "alone"
    simulate(trace, preset="tiny", duration=5.0, sensors=("lidar", "imu"))
    request = json.dumps({"options": {"segment": 1.0, "overlap": 0.3}})

    def odom(where: Path, more: Mapping[str, str]) -> subprocess.Popen[str]:
        output = ["--output", str(where / "_odom" / "meta.json"), "--threads", "1", "--request", request]
        command = [sys.executable, "-m", "rover_pipeline", "step", "_odom", "--trace", str(where), *output]
        return subprocess.Popen(command, env={**os.environ, **more}, stderr=subprocess.PIPE, text=True)

    made = [sys.executable, "-m", "rover_pipeline", "step", "_lidar_image", "--trace", str(trace)]
    subprocess.run([*made, "--output", str(trace / "_lidar_image" / "meta.json")], check=True, capture_output=True)
    shutil.copytree(trace, alone)
    assert odom(alone, {}).wait(120) == 0
    expected = result_bytes(alone)
    assert json.loads((alone / "_odom" / "provenance.json").read_text())["measured"]["segments"] == 5

    dask = {"slurm": {"jobs": 2, "cores": 1, "memory": "1 GiB", "hours": 0.2}}
    # Logs of workers go to a place of their own, and kernels stay where they are compiled.
    kernels = os.environ.get("NUMBA_CACHE_DIR", str(user_cache_path("rover_pipeline")))
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "NUMBA_CACHE_DIR": kernels}
    env |= {**slurm, DASK_VARIABLE: json.dumps(dask)}
    running = odom(trace, env)
    try:
        wait_until(lambda: running.poll() is not None or list(trace.glob(".partial/**/thin-*")), 180)
        at_work = jobs(slurm, "running")
        assert running.poll() is None and at_work, running.communicate()[1]
        subprocess.run(["scancel", "--full", "--signal=KILL", at_work[0]], env={**os.environ, **slurm}, check=True)
        wait_until(lambda: at_work[0] not in jobs(slurm), 30)
        told = running.communicate(timeout=240)[1]
    finally:
        running.kill()
    assert running.returncode == 0, told
    assert result_bytes(trace) == expected
    wait_until(lambda: not jobs(slurm), 60)


def test_a_job_that_slurm_refuses_is_one_line(slurm: dict[str, str], tmp_path: Path) -> None:
    with Laboratory(tmp_path) as lab:
        dask = {"slurm": {"partition": "nowhere"}}
        env = {**slurm, "XDG_CACHE_HOME": str(tmp_path / "cache")}
        lab.run(2, dask=dask, env=env).fails("dask.slurm: Slurm refuses such a job: .*partition", limit=60)
        lab.check(factors=[0])
