"""Dask workers as jobs of Slurm: a scheduler in this process, and workers that Slurm starts for it, by dask-jobqueue.

A step keeps its workers from its first spread work until its process ends, and so waits in Slurm's queue once. The
connections are encrypted with a certificate of this one run: whoever reaches a Dask scheduler can have it run anything.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from rover_pipeline.engine.dask_distributed import reason
from rover_pipeline.errors import MissingExtraError, RoverError, counted, short_text
from rover_pipeline.options import SlurmWorkers

#: Seconds after which a worker whose scheduler is gone ends. Schedule.
_ORPHAN_S = 60
#: Clusters that run, by what they were asked for as: a process has one, which all its work shares.
_clusters: dict[str, Any] = {}


def start(asked: SlurmWorkers) -> Any:
    """The running cluster of these workers, started at the first call. It has `scheduler_address` and `security`.

    Raises:
        MissingExtraError: dask-jobqueue is not installed.
        RoverError: there is no Slurm here, it refuses the jobs, or the scheduler cannot start.
    """
    key = asked.model_dump_json()
    if key not in _clusters:
        _clusters[key] = _started(asked)
        Finalize(None, close, exitpriority=0)  # processes that were forked for the work call it too
    return _clusters[key]


def close() -> None:
    """Ends the jobs of all clusters of this process."""
    while _clusters:
        _clusters.popitem()[1].close(timeout=10)


def _started(asked: SlurmWorkers) -> Any:
    try:
        with warnings.catch_warnings(action="ignore"):
            from dask_jobqueue import SLURMCluster
            from distributed.security import Security
    except ImportError as error:
        raise MissingExtraError("dask.slurm", "slurm") from error
    if shutil.which("sbatch") is None:
        raise RoverError("dask.slurm: there is no `sbatch` on this machine; set `dask.scheduler`, or leave both out")
    folder, minutes = _private_folder(), max(1, round(asked.hours * 60))
    try:
        with warnings.catch_warnings(action="ignore"):
            cluster = SLURMCluster(
                cores=asked.cores,
                processes=asked.cores,  # many kernels hold the interpreter's lock
                memory=str(int(asked.memory)),
                walltime=f"{minutes // 60:02d}:{minutes % 60:02d}:00",
                queue=asked.partition,
                account=asked.account,
                interface=asked.interface,
                job_extra_directives=list(asked.directives),
                job_name="rover-pipeline-worker",
                python=f"{shlex.quote(sys.executable)} -P",  # no module is taken from the folder that they work in
                log_directory=str(folder),
                local_directory="${TMPDIR:-/tmp}",
                death_timeout=_ORPHAN_S,
                worker_extra_args=["--no-dashboard"],
                scheduler_options={"dashboard": False},
                security=Security.temporary(),
                shared_temp_directory=str(folder),
                silence_logs="critical",
            )
    except (OSError, RuntimeError, ValueError) as error:
        raise RoverError(f"dask.slurm: the scheduler does not start: {short_text(reason(error))}") from error
    try:
        _require_accepted(cluster.job_script())
    except BaseException:
        cluster.close(timeout=10)
        raise
    print(
        f"asking Slurm for {counted(asked.jobs, 'job')} of {counted(asked.cores, 'worker')}; logs are in {folder}",
        file=sys.stderr,
        flush=True,
    )
    cluster.adapt(minimum_jobs=asked.jobs, maximum_jobs=asked.jobs)  # unlike `scale`, submits a lost job again
    return cluster


def _require_accepted(script: str) -> None:
    """An error when Slurm would refuse a job: submitted later, by Dask, its refusal would be a line in a log."""
    tried = subprocess.run(["sbatch", "--test-only"], input=script, capture_output=True, text=True, check=False)
    if tried.returncode:
        said = [line for line in tried.stderr.splitlines() if line.strip()]
        raise RoverError(f"dask.slurm: Slurm refuses such a job: {said[-1] if said else f'status {tried.returncode}'}")


def _private_folder() -> Path:
    """A new folder that other nodes see and other users do not, for logs and keys of the connections."""
    base = user_cache_path("rover_pipeline") / "slurm-workers"
    try:
        base.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f"{os.environ.get('SLURM_JOB_ID', os.getpid())}-", dir=base))
    except OSError as error:
        raise RoverError(f"{base}: cannot be written ({error.strerror}); XDG_CACHE_HOME names another place") from error
