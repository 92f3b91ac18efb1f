"""The radar's velocity among points that move together, and of a fast radar: `python -m benchmarks.ego_motion`.

The page of `_radar_velocity` quotes the figures.
"""

from __future__ import annotations

import rover_pipeline  # isort: skip
import numpy as np

from benchmarks.results import record
from rover_pipeline.radar.options import PointsOptions, VelocityOptions
from rover_pipeline.radar.steps import points
from rover_pipeline.radar.velocity import ego_velocity, velocity
from tests.radar.motion import frames
from tests.radar.scenes import chirps, texts

assert rover_pipeline  # imported before NumPy, which rounds otherwise
#: A frame whose level velocity is off by more is wrong, m/s.
_WRONG = 0.3


def looks_down(degrees: int, options: VelocityOptions) -> tuple[float, np.ndarray]:
    """Share of valid frames of a radar that looks down, and their level errors, f8 (frame,), m/s.

    Frames have 8 to 40 points within 55 degrees; 30 % of them move together.
    """
    errors, count = [], 0
    for speed in (1, 3, 6, 9, 12, 15):
        for seed in range(50):
            rng = np.random.default_rng([seed, degrees, speed, 7])
            tilt = np.radians(degrees)
            motion = speed * np.array([np.cos(tilt), rng.normal(0, 0.1), -np.sin(tilt)])
            azimuth, elevation = np.radians(rng.uniform([[-55], [-10]], [[55], [10]], (2, int(rng.integers(8, 41)))))
            level = np.cos(elevation)
            direction = np.stack([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)], axis=-1)
            doppler = -direction @ motion + rng.normal(0, 0.02, len(direction))
            doppler[rng.random(len(doppler)) < 0.3] += rng.uniform(-6, 6)
            found = ego_velocity(direction, doppler, 0.15, options)
            count += 1
            if found.determined:
                errors.append(float(np.linalg.norm((found.vel - motion)[:2])))
    return len(errors) / count, np.array(errors)


def of_preset(preset: str, speed: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Whether 16 frames of a preset are valid, bool (frame,), and their level errors, f8 (frame,), m/s.

    The radar is an AWR1843 whose largest Doppler is 1.25 m/s, or that of the preset where no speed is given.
    """
    changes = {} if speed is None else {"speed": speed, "radar": chirps(idle_time=200.0)}
    chirp, iq, truth = frames(preset, np.linspace(3.0, 11.0, 16), seed=3, **changes)
    described = texts(chirp)
    made = points(iq, np.ones(len(iq), "u1"), options=PointsOptions(), **described)
    arrays = {name: made[name] for name in ("xyz", "doppler", "count", "certain", "deviation")}
    found = velocity(**arrays, options=VelocityOptions(), sidecar=described["sidecar"], config=described["config"])
    return found["valid"] == 1, np.linalg.norm((found["vel"] - truth)[:, :2], axis=1)


if __name__ == "__main__":
    of = (
        "300 synthetic frames of 8 to 40 points at 1 to 15 m/s, 30 % of which move together, of a radar that looks down"
    )
    wrong, worst, number, worst_untested = [], 0.0, 0, 0.0
    for degrees in (0, 10, 20, 30, 40):
        valid, errors = looks_down(degrees, VelocityOptions())
        record(f"radar_velocity/down {degrees}", f"{100 * valid:.0f}", "%", of=f"valid of {of} by {degrees} degrees")
        wrong.append(int((errors > _WRONG).sum()))
        worst, number = max(worst, float(errors.max())), number + len(errors)
        valid, errors = looks_down(degrees, VelocityOptions(max_rival=1.0))
        untested = f"the same without the test of competing velocities: {degrees} degrees"
        record(f"radar_velocity/down {degrees} untested", f"{100 * valid:.0f}", "%", of=untested)
        print("wrong without the test:", int((errors > _WRONG).sum()))
        worst_untested = max(worst_untested, float(errors.max()))
    record("radar_velocity/down errors", f"{sum(wrong)} of {number}", of=f"valid frames off by more than 0.3 m/s, {of}")
    record("radar_velocity/down worst", f"{worst:.1f}", "m/s", of="largest level error of these valid frames")
    without = "the same without the test of competing velocities"
    record("radar_velocity/down worst untested", f"{worst_untested:.1f}", "m/s", of=without)
    rms, largest = [], 0.0
    for preset in ("indoor", "smooth", "outdoor", "bike"):
        for speed in (1.0, 2.4, 3.5) if preset != "bike" else (None,):
            valid_frames, error = of_preset(preset, speed)
            print(preset, speed, valid_frames.mean(), error[valid_frames].max())
            rms.append(float(np.sqrt(np.mean(error[valid_frames] ** 2))))
            largest = max(largest, float(error[valid_frames].max()))
    of = "`indoor`, `smooth`, `outdoor` at 0.8 to 2.8 times the largest Doppler of an AWR1843, `bike`; 16 frames each"
    record("radar_velocity/fast RMS", f"{min(rms):.3f} to {max(rms):.3f}", "m/s", of=f"{of}: level error, RMS")
    record("radar_velocity/fast worst", f"{largest:.3f}", "m/s", of="the same: largest level error")
    lost = int((~of_preset("crowd", 3.6)[0]).sum())
    record("radar_velocity/crowd lost", f"{lost} of 16", of="frames of `crowd` at 2.9 times the largest Doppler, lost")
