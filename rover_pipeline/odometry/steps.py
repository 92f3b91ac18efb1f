"""Virtual sensor `_odom`: where the lidar was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.recording import Recording
from rover_pipeline.rig import find_mount
from rover_pipeline.steps import Inspection, step

# Numba and SciPy take long to import, and the Snakefile, which reads this module, needs none of them.
if TYPE_CHECKING:
    from rover_pipeline.odometry.refine import Fit, Gyro, Sweep
    from rover_pipeline.odometry.segments import Seam, Segment

#: Sweeps read at once.
_BLOCK = 8
#: Differences of the two sides of a seam above which the user is told, metres and degrees.
_WIDE_SEAM = 0.05, 0.5


@step(
    inputs={"rng": "_lidar_image/rng"},
    files={"metadata": "lidar/lidar.json", "config": "config.yaml"},
    whole={"imu_ts": "imu/ts", "imu_avel": "imu/avel", "imu_valid": "imu/valid"},
    outputs={
        "pos": "Position of the lidar at the instant that ts refers to, m. [xyz]; the world is the first valid pose.",
        "rot": "World-from-lidar rotation. [world, lidar]",
        "vel": "Velocity in the world, m/s. [xyz]",
        "acc": "Acceleration in the world, m/s2. [xyz]",
        "avel": "Angular velocity in the lidar frame, rad/s. [xyz]",
        "inliers": "Share of the sweep's points that lie on planes of the map.",
        "residual": "Root mean square distance of those from their planes, m.",
        "information": "Smallest eigenvalue of the information of the sweep about its displacement and, times the "
        "points' distance, rotation, 1/m2: small where the surroundings leave a direction open.",
    },
    version=1,
    recording=True,
)
def odom(
    recording: Recording,
    *,
    options: OdometryOptions,
    metadata: str,
    config: str | None = None,
    imu_ts: np.ndarray | None = None,
    imu_avel: np.ndarray | None = None,
    imu_valid: np.ndarray | None = None,
) -> tuple[dict[str, np.ndarray], Inspection]:
    """The lidar's trajectory over a whole recording.

    Args:
        recording: of `rng`, u2 (frame, beam, column), mm, destaggered.
        metadata: `lidar.json`; config: `config.yaml`, which may hold the extrinsics.
        imu_ts, imu_avel, imu_valid: f8 (sample,), s; (sample, 3), rad/s, IMU frame; u1 (sample,).
    """
    from rover_pipeline.lidar.geometry import sensor_info, sweep_span
    from rover_pipeline.odometry.segments import join, split
    from rover_pipeline.timestamps import smooth_times

    if recording.count == 0:
        raise ValueError("there is no sweep")
    begin, _ = sweep_span(sensor_info(metadata), options.lidar.ts_reference)
    times = smooth_times(recording.ts).smooth
    gyro, told = _gyro(imu_ts, imu_avel, imu_valid, options, config)
    work = _Registration(recording, times, begin, options, metadata, gyro)
    parts = split(times, options.segment, options.overlap)
    state, fits, seams = join(recording.map(work, parts, "register"), recording.count)

    quality = np.array([_quality(each) for each in fits])
    known = ~np.isnan(quality).any(axis=1)
    valid = known & (recording.valid != 0)
    valid[known] &= quality[known, 0] >= options.min_inliers
    valid[known] &= quality[known, 1] <= options.max_residual
    valid[known] &= quality[known, 2] >= options.max_error**-2
    origin = int(np.argmax(valid)) if valid.any() else 0
    turn = state.rot[origin].T
    result = {
        "pos": (state.pos - state.pos[origin]) @ turn.T,
        "rot": turn @ state.rot,
        "vel": state.vel @ turn.T,
        "acc": state.acc @ turn.T,
        "avel": state.avel,
        "inliers": quality[:, 0].astype("f4"),
        "residual": quality[:, 1].astype("f4"),
        "information": quality[:, 2],
        "valid": valid,
    }
    measured = {"segments": len(parts), "gyroscope": told, "seams": [_seam(each) for each in seams]}
    return result, Inspection(measured, _warnings(seams, valid, recording.valid))


@dataclass
class _Registration:
    """Registers a part of the recording; goes to other processes.

    Attributes:
        times: f8 (frame,), stamps of the sweeps, seconds.
        begin: of a sweep after its stamp, seconds.
    """

    recording: Recording
    times: np.ndarray
    begin: float
    options: OdometryOptions
    metadata: str
    gyro: Gyro

    def __call__(self, start: int, stop: int) -> Segment:
        from rover_pipeline.odometry.refine import Gyro
        from rover_pipeline.odometry.register import register

        # Seconds since the part's first sweep: since 1970 they have no digits to spare.
        origin = self.times[start]
        gyro = Gyro(self.gyro.times - origin, self.gyro.rates)
        return register(
            self._sweeps(start, stop, origin),
            self.times[start:stop] - origin,
            self.options,
            metadata=self.metadata,
            gyro=gyro,
            start=start,
        )

    def _sweeps(self, start: int, stop: int, origin: float) -> Iterator[tuple[Sweep | None, np.ndarray | None]]:
        from rover_pipeline.lidar.geometry import rays, sensor_info, stagger, sweep_span
        from rover_pipeline.odometry.sweeps import Selection

        options = self.options
        info = sensor_info(self.metadata)
        _, period = sweep_span(info, options.lidar.ts_reference)
        selection = Selection(
            *rays(self.metadata),
            points=options.points,
            reach=(options.min_range, options.max_range),
            begin=self.begin,
            period=period,
        )
        for first in range(start, stop, _BLOCK):
            last = min(first + _BLOCK, stop)
            for number, ranges in enumerate(stagger(self.recording.read("rng", first, last), info), first):
                if self.recording.valid[number]:
                    yield selection.sweep(ranges, number, self.times[number] - origin), ranges
                else:
                    yield None, None


def _gyro(
    ts: np.ndarray | None,
    avel: np.ndarray | None,
    valid: np.ndarray | None,
    options: OdometryOptions,
    config: str | None,
) -> tuple[Gyro, str]:
    """Angular velocities in the lidar frame, and whether and why they are used."""
    from rover_pipeline.odometry.refine import NO_GYRO, Gyro
    from rover_pipeline.timestamps import smooth_times

    if not options.imu:
        return NO_GYRO, "not asked for"
    if ts is None or avel is None or len(ts) < 2:
        return NO_GYRO, "none recorded"
    mount = find_mount("imu", options.rig, config)
    if not mount.known:
        return NO_GYRO, "not used: section rig does not say how the IMU is turned"
    good = np.isfinite(avel).all(axis=1) & (np.ones(len(ts), bool) if valid is None else valid != 0)
    rates = avel.astype("f8") @ mount.rotation.T
    return Gyro(smooth_times(ts).smooth[good], rates[good]), "used"


def _quality(fit: Fit | None) -> tuple[float, float, float]:
    """Inlier ratio, residual, smallest eigenvalue of the information."""
    if fit is None or not np.isfinite(fit.matrix).all():
        return np.nan, np.nan, np.nan
    matrix = fit.matrix.copy()
    # A rotation by an angle moves a point by its distance times the angle.
    spread = np.sqrt(max(np.trace(matrix[3:, 3:]), 1e-12) / max(np.trace(matrix[:3, :3]), 1e-12))
    matrix[3:] /= spread
    matrix[:, 3:] /= spread
    return fit.inliers, fit.residual, float(max(np.linalg.eigvalsh(matrix)[0], 0.0))


def _seam(seam: Seam) -> dict[str, Any]:
    return {
        "frame": seam.frame,
        "metres": float(f"{seam.metres:.3g}"),
        "degrees": float(f"{seam.degrees:.3g}"),
        "planes": seam.planes,
    }


def _warnings(seams: list[Seam], valid: np.ndarray, raw: np.ndarray) -> list[str]:
    wide = [seam for seam in seams if not (seam.metres <= _WIDE_SEAM[0] and seam.degrees <= _WIDE_SEAM[1])]
    warnings = [
        f"frame {seam.frame}: the parts that meet here differ by {seam.metres:.3f} m and {seam.degrees:.2f} degrees; "
        "a longer odometry.overlap may help"
        for seam in wide
    ]
    lost = int((~valid & (raw != 0)).sum())
    if lost:
        warnings.append(f"{lost} of {len(valid)} sweeps are not to be trusted: see inliers, residual and information")
    return warnings
