"""Loop closure on simulated ways that come back to where they were: `python -m benchmarks.loops`.

First the step as a process with loops off and on, at the defaults, where there is no drift to take out and nothing may
change; then with the poses of the first pass alone, which drift. At last the truth with drift of a known size put in.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np

from benchmarks.measure import print_versions
from benchmarks.odometry import Poses, errors, load, recording, step
from benchmarks.results import record
from rover_pipeline.clocks.sampling_times import smooth_times
from rover_pipeline.engine.recording import Recording
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.kinematics.state import State
from rover_pipeline.odometry.loops.closure import close_loops, correct_trajectory, path_length
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.segments import SweepReader

#: Presets, seconds of them that pass some places twice.
SEQUENCES = {"indoor": 60.0, "smooth": 60.0, "stairs": 85.0, "bike": 70.0}
COLUMNS = 1024


class Images:
    """As much of a recording as a `Reader` asks for."""

    arguments = ("rng",)

    def __init__(self, trace: Path) -> None:
        source = Sensor(trace / "_lidar_image")
        self._rng = source.channel("rng")
        self.ts = source.channel("ts").read()
        self.valid = np.ones(len(self.ts), "u1")

    def read(self, argument: str, start: int, stop: int) -> np.ndarray:
        return self._rng.read(start, stop)


def steps(trace: Path, **options: Any) -> str:
    """A row: ATE (mm) and seconds of the step with loops off and on, and what it found."""
    off = step(trace, 2, **options)
    plain = [Sensor(trace / "_odom").channel(name).read().tobytes() for name in State._fields]
    on = step(trace, 2, loops=True, **options)
    same = plain == [Sensor(trace / "_odom").channel(name).read().tobytes() for name in State._fields]
    loops = json.loads((trace / "_odom" / PROVENANCE).read_text())["measured"]["loops"]
    way = path_length(load(trace).truth.pos)[-1]
    return (
        f"| {trace.name} {options or ''} | {way:.0f} | {1e3 * off[1]:.3f} | {1e3 * on[1]:.3f} | "
        f"{'same bytes' if same else f'{off[1] / on[1]:.1f}x'} | {len(loops['accepted'])} of {loops['candidates']} | "
        f"{off[0]:.1f} | {on[0]:.1f} |"
    )


def drifted(state: State, times: np.ndarray, drift: float, seed: int) -> State:
    """A trajectory with errors that add up over the way, of `drift` metres a metre and a turn to go with it."""
    rng, way = np.random.default_rng(seed), path_length(state.pos)
    keys = np.unique(np.append(np.searchsorted(way, np.arange(0, way[-1], 2.0)), len(way) - 1))
    always, pos, rot = rng.normal(0, 0.5, 6), [state.pos[0]], [state.rot[0]]
    for a, b in pairwise(keys):
        off = drift / np.sqrt(3) * (way[b] - way[a]) * (always + rng.normal(0, 0.7, 6))
        pos.append(pos[-1] + rot[-1] @ state.rot[a].T @ (state.pos[b] - state.pos[a]) + off[:3])
        rot.append(rot[-1] @ state.rot[a].T @ state.rot[b] @ exp(off[None, 3:] / 8)[0])
    old = state.pos[keys], state.rot[keys]
    return correct_trajectory(state, times, times[keys], old, (np.array(pos), np.array(rot)))


def injected(trace: Path, drift: float, seed: int) -> tuple[float, str]:
    """How many times smaller the ATE of the truth with drift becomes; and a row: ATE (mm) before and after, seconds."""
    images, found = Images(trace), load(trace)
    times, metadata = smooth_times(images.ts).smooth, found.metadata
    times = times - times[0]
    options = OdometryOptions(loops=True)
    reader = SweepReader(cast(Recording, images), options, metadata, times=times)
    bad = drifted(found.truth, times, drift, seed)
    known, begin = np.ones(len(times), bool), time.perf_counter()
    fixed, loops = close_loops(
        bad,
        times,
        known,
        np.full(len(times), 1e-3),
        options,
        sweeps=reader.select,
        map_ranges=lambda task, ranges, title: (task(*each) for each in ranges),
    )
    seconds = time.perf_counter() - begin
    before, after = (
        errors(Poses(each.pos, each.rot, 0.0), found.truth.pos, found.truth.rot)[0] for each in (bad, fixed)
    )
    return before / after, (
        f"| {trace.name} | {drift} | {1e3 * before:.1f} | {1e3 * after:.1f} | {before / after:.1f}x | "
        f"{len(loops['accepted'])} of {loops['candidates']} | {seconds:.1f} |"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", nargs="+", default=list(SEQUENCES), choices=list(SEQUENCES))
    chosen = parser.parse_args()
    print_versions("gtsam", "numba", "numpy", "scipy")
    traces = [recording(name, SEQUENCES[name], COLUMNS) for name in chosen.sequences]
    print("\nthe step as a process, two threads")
    print("| sequence | way, m | ATE off, mm | ATE on, mm | | loops accepted | s off | s on |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for asked in ({}, {"passes": 1}):
        for path in traces:
            print(steps(path, **asked), flush=True)
    print("\nthe truth with drift put in")
    print("| sequence | drift | ATE with it, mm | ATE after, mm | | loops accepted | s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    ratios = []
    for number, size in enumerate((0.001, 0.003, 0.006)):
        for path in traces:
            ratio, row = injected(path, size, number)
            ratios.append(ratio)
            print(row, flush=True)
    names = ", ".join(chosen.sequences)
    of = f"how much smaller loop closure makes the ATE of {names} with drift of 1 to 6 mm a metre of way"
    record("loops/drift", f"{min(ratios):.1f} to {max(ratios):.1f} times", of=of)
