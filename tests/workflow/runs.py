"""Running the real workflow on small traces, as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import CHECKOUT

#: What is made unless a test says otherwise: two jobs, since each takes a second to start.
OUTPUTS = "lidar_image,radar_range_doppler"
#: All default outputs but those that the noise of small traces does not give: it has no odometry, and so no map.
FROM_NOISE = f"{OUTPUTS},radar_range_azimuth,radar_points,radar_velocity,sync,bev,report"
_LOGS = ".snakemake/log/*.log"
SNAKEMAKE = [sys.executable, "-m", "snakemake", "--snakefile", str(CHECKOUT / "Snakefile")]


def snakemake(
    folder: Path,
    traces: object,
    *arguments: str,
    config: Mapping[str, object] | None = None,
    profile: str = "local",
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the workflow in `folder` on `traces` and return what it printed; Snakemake's own log is added to stdout."""
    before = {*folder.glob(_LOGS)}
    done = subprocess.run(
        command(traces, *arguments, config=config, profile=profile),
        cwd=folder,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    done.stdout += "".join(path.read_text() for path in sorted({*folder.glob(_LOGS)} - before))
    return done


def command(
    traces: object, *arguments: str, config: Mapping[str, object] | None = None, profile: str = "local"
) -> list[str]:
    """The command line of a run."""
    settings = [
        f"{key}={value if isinstance(value, str) else json.dumps(value, default=str)}"
        for key, value in {
            "traces": str(traces) if isinstance(traces, Path) else traces,
            "outputs": OUTPUTS,
            **(config or {}),
        }.items()
    ]
    profile_folder = str(CHECKOUT / "profiles" / profile)
    return [*SNAKEMAKE, "--profile", profile_folder, *arguments, "--config", *settings]


def result_bytes(trace: Path) -> dict[str, bytes]:
    """Files of all virtual sensors of a trace but `provenance.json` and the page made from it, which tell times."""
    return {
        str(path.relative_to(trace)): path.read_bytes()
        for path in sorted(trace.glob("_*/*"))
        if path.is_file() and path.name != "provenance.json" and path.parent.name != "_report"
    }


def raw_state(trace: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and modification times of the raw sensors."""
    return {
        str(path.relative_to(trace)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(trace.rglob("*"))
        if path.is_file() and not path.relative_to(trace).parts[0].startswith("_")
    }
