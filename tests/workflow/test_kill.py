"""kill -9 of a whole run, then the same command again: at a dozen moments in the whole campaign, else at one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from rover_pipeline.format.meta import META
from rover_pipeline.format.sensor import Sensor
from tests.kit import WHOLE, small_trace
from tests.workflow.runs import command, raw_state, result_bytes, snakemake

pytestmark = pytest.mark.system

MOMENTS = 12
#: From the lidar, from the radar, and from what is made from the radar.
OUTPUTS = {"outputs": "lidar_image,radar_points,radar_velocity"}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes], float]:
    """A trace before processing, the bytes of its results, and how long a run takes."""
    folder = tmp_path_factory.mktemp("undisturbed")
    raw = small_trace(folder / "raw", frames=40)
    trace = shutil.copytree(raw, folder / "trace")
    begin = time.monotonic()
    done = snakemake(folder, trace, config=OUTPUTS)
    assert done.returncode == 0, done.stderr
    return raw, result_bytes(trace), time.monotonic() - begin


@pytest.mark.parametrize("moment", range(MOMENTS) if WHOLE else (7,))
def test_a_killed_run_leaves_nothing_half_written_and_is_finished_by_the_same_command(
    undisturbed: tuple[Path, dict[str, bytes], float], moment: int, tmp_path: Path
) -> None:
    raw, expected, took_s = undisturbed
    trace = shutil.copytree(raw, tmp_path / "trace")
    before = raw_state(trace)
    run = subprocess.Popen(
        command(trace, config=OUTPUTS), cwd=tmp_path, stderr=subprocess.DEVNULL, start_new_session=True
    )
    # The first third is Snakemake reading its rules; the jobs are in the rest.
    time.sleep(took_s * (0.3 + 0.7 * moment / MOMENTS))
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    for place in trace.glob("_*"):
        if (place / META).exists():
            made = Sensor(place)
            assert made.length() == len(made.channel("ts"))
            assert (place / "provenance.json").exists()
            for path in place.iterdir():
                if path.name in made.specs:
                    assert path.read_bytes() == expected[f"{place.name}/{path.name}"]
    again = snakemake(tmp_path, trace, config=OUTPUTS)
    assert again.returncode == 0, again.stderr
    assert result_bytes(trace) == expected
    assert raw_state(trace) == before
    assert not (trace / ".partial").exists()
