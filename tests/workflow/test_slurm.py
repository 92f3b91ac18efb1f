"""The cluster profile on a real Slurm of two nodes, brought up on this machine and taken down again.

The script that does so is named by ROVER_PIPELINE_SLURM; it needs Debian's Slurm packages, or root to install them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    assert failures, done.stderr
    assert f"{cut_off}: holds no samples" in failures[0]
    assert not [line for line in failures[1:] if line.startswith("  ")]
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
