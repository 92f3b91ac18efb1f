"""What must not grow: memory with the recording, and the dry run with the traces: `python -m benchmarks.scaling`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from benchmarks.data import FOLDER, many_traces
from benchmarks.measure import print_versions, run, steps_command
from benchmarks.results import record
from benchmarks.steps import STEPS

CHECKOUT = Path(__file__).parents[1]


def memory(work: str, frames: int) -> None:
    made, recording = STEPS[work]
    peaks = []
    for count in (frames, 10 * frames):
        trace = recording(count)
        for name in made:
            shutil.rmtree(trace / name, ignore_errors=True)
        peaks.append(run(steps_command(made, trace)).peak_mib)
        for name in made:
            shutil.rmtree(trace / name, ignore_errors=True)
    short, long = peaks
    names = " and ".join(made)
    of = f"peak memory of {names} on {10 * frames} frames beside {frames}"
    record(f"speed/memory {work}", f"{long / short:.3f}x ({long:.0f} MiB and {short:.0f} MiB)", of=of)


def dry_run(count: int, runs: int = 3) -> None:
    profile = ["--profile", str(CHECKOUT / "profiles" / "local"), "--directory", str(FOLDER / "dry")]
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(CHECKOUT / "Snakefile"), *profile, "--dry-run"]
    made = sorted(run([*command, "--config", f"traces={many_traces(count)}"]) for _ in range(runs))[runs // 2]
    value = f"{made.seconds:.1f} s, {made.peak_mib:.0f} MiB"
    record(f"speed/dry run {count}", value, of=f"a dry run of {count:,} traces with all default outputs")


if __name__ == "__main__":
    print_versions("dask", "snakemake")
    memory("lidar", 200)
    memory("radar", 400)
    memory("spectra", 400)
    dry_run(1000)
    dry_run(100_000, runs=1)
