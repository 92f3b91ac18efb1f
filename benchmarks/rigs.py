"""Several lidars and several radars of a rig together, beside each alone: `python -m benchmarks.rigs [--seeds N]`.

Recordings are of the preset `car`, eight seconds each. Errors of positions are of the place of the main lidar, and are
root mean squares after the fit of one rotation and translation.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import yaml
from scipy.spatial.transform import Rotation

import rover_pipeline as rp
from benchmarks.results import record
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.simulate.record import simulate
from rover_pipeline.table import find_step
from rover_pipeline.validation.accuracy import align

SECONDS, MAIN, OTHER = 8.0, "lidar_top", "lidar_rear"
RADARS = ("radar_front", "radar_left")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4)
    asked = parser.parse_args()
    rows = np.array([list(_recording(seed)) for seed in range(1, asked.seeds + 1)])
    of = f"{asked.seeds} recordings of 8 s of the preset `car`"
    names = ("two lidars", "lidar_top alone", "lidar_rear alone", "two lidars NEES", "two radars NEES")
    for name, values in zip(names, rows.T, strict=True):
        unit = "" if "NEES" in name else "mm"
        print(f"{name}: {values.mean():.2f} {unit} ({', '.join(f'{each:.2f}' for each in values)})")
        record(f"rigs/{name}", f"{values.mean():.2f}", unit, of=f"mean of {of}")


def _recording(seed: int) -> Iterator[float]:
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "car"
        simulate(trace, preset="car", seed=seed, duration=SECONDS, threads=2)
        for name in (MAIN, OTHER):
            run_step(find_step("_lidar_image"), trace, f"_{name}_image", Request(), threads=2)
        mount = yaml.safe_load((trace / "config.yaml").read_text())["rig"][OTHER]
        run_step(find_step("_odom"), trace, "_odom", Request(), threads=2)
        yield _error(trace, "_truth", np.zeros(3))
        nees = _nees(trace)
        for kept, left, truth in ((MAIN, OTHER, "_truth"), (OTHER, MAIN, f"_truth_{OTHER}")):
            alone = Path(folder) / kept
            shutil.copytree(trace, alone, ignore=shutil.ignore_patterns(left, f"_{left}_image", "_odom"))
            run_step(find_step("_odom"), alone, "_odom", Request(), threads=2)
            # The main lidar as the other one has it.
            place = -np.array(mount["rotation"]).T @ mount["translation"] if kept == OTHER else np.zeros(3)
            yield _error(alone, truth, place)
        yield nees
        for name in RADARS:
            for product in ("points", "velocity"):
                run_step(find_step(f"_radar_{product}"), trace, f"_{name}_{product}", Request(), threads=2)
        shutil.rmtree(trace / "radar_rear")
        run_step(find_step("_imu_filtered"), trace, "_imu_filtered", Request())
        run_step(find_step("_radar_odom"), trace, "_radar_odom", Request())
        found = rp.open(trace)["_radar_odom"]
        vel, true = (
            np.einsum("nji,nj->ni", each.rot[:], each.vel[:]) for each in (found, rp.open(trace)[f"_truth_{RADARS[0]}"])
        )
        own = vel - true
        valid = np.asarray(found.valid[:], bool)
        cov = found.vel_cov[:].astype("f8")[valid]
        yield float(np.einsum("ni,nij,nj->n", own[valid], np.linalg.inv(cov), own[valid]).mean() / 3)


def _error(trace: Path, truth_of: str, place: np.ndarray) -> float:
    """Of positions, mm. `place`: f8 (3,), m, in the frame of the lidar."""
    found, truth = rp.open(trace)["_odom"], rp.open(trace)[truth_of]
    assert np.asarray(found.valid[:]).all()
    here, there = (each.pos[:] + each.rot[:] @ place for each in (found, truth))
    return 1e3 * float(np.sqrt(((align(here, there).of(here) - there) ** 2).sum(axis=1).mean()))


def _nees(trace: Path) -> float:
    """Mean normalised squared error of the poses relative to the first one, for each degree of freedom."""
    found, truth = rp.open(trace)["_odom"], rp.open(trace)["_truth"]
    cov, values = found.cov[:].astype("f8"), []
    for n in range(5, len(cov)):
        way, true_way = (each.rot[0].T @ (each.pos[n] - each.pos[0]) for each in (found, truth))
        turn, true_turn = (each.rot[0].T @ each.rot[n] for each in (found, truth))
        wrong = np.append(turn.T @ (way - true_way), Rotation.from_matrix(true_turn.T @ turn).as_rotvec())
        values.append(wrong @ np.linalg.solve(cov[n], wrong) / 6)
    return float(np.mean(values))


if __name__ == "__main__":
    main()
