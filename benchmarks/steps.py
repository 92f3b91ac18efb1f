"""Steps beside a plain loop, as whole processes that read and write the same: `python -m benchmarks.steps`.

`python -m benchmarks.steps --only spectra --frames 400 4800` compares `_radar_range_doppler` and `_radar_spectrum`,
made in one pass, with one loop that writes both.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.data import FOLDER, camera_recording, lidar_recording, radar_recording
from benchmarks.measure import interleaved, median_seconds, print_versions, step_command, steps_command
from benchmarks.results import record
from rover_pipeline.format.sensor import Sensor

OUT = FOLDER / "peer"
#: What is made, and the recording that it is made of.
STEPS: dict[str, tuple[tuple[str, ...], Callable[[int], Path]]] = {
    "lidar": (("_lidar_image",), lidar_recording),
    "radar": (("_radar_range_doppler",), radar_recording),
    "spectra": (("_radar_range_doppler", "_radar_spectrum"), radar_recording),
    "camera": (("_camera_frames",), camera_recording),
}


def compare(work: str, frames: int, rounds: int) -> None:
    made, recording = STEPS[work]
    trace, single = recording(frames), recording(1)

    def clean() -> None:
        for place in (*(each / name for each in (trace, single) for name in made), OUT):
            shutil.rmtree(place, ignore_errors=True)
        os.sync()  # or the writes of one process are waited for by the next

    def peer(source: Path) -> list[str]:
        return [sys.executable, "-m", "benchmarks.peers", work, str(source), str(OUT)]

    found = interleaved(
        rounds,
        {
            "ours": steps_command(made, trace),
            "peer": peer(trace),
            "ours, 1 frame": steps_command(made, single),
            "peer, 1 frame": peer(single),
        },
        before=clean,
    )
    whole = statistics.median(p.seconds / o.seconds for o, p in zip(found["ours"], found["peer"], strict=True))
    seconds = {what: median_seconds(runs) for what, runs in found.items()}
    ours = frames / (seconds["ours"] - seconds["ours, 1 frame"])
    theirs = frames / (seconds["peer"] - seconds["peer, 1 frame"])
    peak = max(each.peak_mib for each in found["ours"])
    record(
        f"speed/{work} {frames}",
        f"{whole:.1f}x as a whole process ({seconds['ours']:.2f} s against {seconds['peer']:.2f} s), "
        f"{ours / theirs:.1f}x the frames/s without start-up ({ours:.0f} against {theirs:.0f}); start-up "
        f"{seconds['ours, 1 frame']:.2f} s against {seconds['peer, 1 frame']:.2f} s; {peak:.0f} MiB",
        of=f"{' and '.join(f'`{name}`' for name in made)}, {frames} frames, beside a plain loop, median of {rounds}",
    )


def agree(work: str, frames: int) -> None:
    """The largest difference from the peer's result, relative to the largest value."""
    (made,), recording = STEPS[work]
    trace = recording(frames)
    shutil.rmtree(trace / made, ignore_errors=True)
    interleaved(
        0,
        {
            "ours": step_command(made, trace),
            "peer": [sys.executable, "-m", "benchmarks.peers", work, str(trace), str(OUT)],
        },
    )
    sensor = Sensor(trace / made)
    for channel, spec in sensor.specs.items():
        if channel in ("ts", "valid"):
            continue
        mine = sensor.channel(channel).read().astype("f8")
        theirs = np.fromfile(OUT / channel, spec.dtype).reshape(mine.shape).astype("f8")
        if work == "radar":
            mine, theirs = 10 ** (mine / 10), 10 ** (theirs / 10)
        of = f"largest difference of {made}/{channel} from the peer's, of the largest value"
        record(f"{made[1:]}/peer {channel}", f"{np.abs(mine - theirs).max() / theirs.max():.0e}", of=of)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=STEPS, help="one comparison (default: lidar and radar)")
    parser.add_argument("--frames", type=int, nargs="+", default=[400, 4800], help="of --only")
    given = parser.parse_args()
    print_versions("imagecodecs", "numpy", "opencv-python-headless", "ouster-sdk", "xwr")
    if given.only:
        for count in given.frames:
            compare(given.only, count, given.rounds)
    else:
        compare("lidar", 200, given.rounds)
        compare("radar", 2000, given.rounds)
        agree("lidar", 20)
        agree("radar", 100)
