"""What is done to the raw channels of a simulated recording: swapped, frozen, dark, out of time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rover_pipeline.format.channels import encode_sample
from rover_pipeline.format.meta import META
from rover_pipeline.format.sensor import TS, Sensor, SensorWriter

_IMAGES = ("rng", "rfl", "nir")


class Raw(NamedTuple):
    """Channels by name, which may be changed; the truth has one row for each sweep.

    Attributes:
        lidar: `ts`, and `rng`, `rfl`, `nir` (sweep, beam, column), staggered.
        imu: `ts`, `rot`, `acc`, `avel`.
        truth: of the lidar, as in `_truth`.
    """

    lidar: dict[str, np.ndarray]
    imu: dict[str, np.ndarray]
    truth: dict[str, np.ndarray]

    @classmethod
    def of(cls, trace: Path) -> Raw:
        return cls(*(_read(trace / name) for name in ("lidar", "imu", "_truth")))

    def write(self, trace: Path) -> None:
        """Replace lidar, IMU and truth of a trace."""
        for name, channels in (("lidar", self.lidar), ("imu", self.imu), ("_truth", self.truth)):
            old, new = trace / name, trace / f"{name}.new"
            specs = Sensor(old).specs
            with SensorWriter(new, specs) as writer:
                writer.append(**{key: values for key, values in channels.items() if specs[key].format == "raw"})
                for key, values in channels.items():
                    if specs[key].format != "raw":
                        for sample in values:
                            writer.append(**{key: encode_sample(specs[key].format, sample)})
            for path in old.glob("*.json"):
                if path.name != META:
                    shutil.copy(path, new)
            shutil.rmtree(old)
            os.rename(new, old)


def _read(folder: Path) -> dict[str, np.ndarray]:
    sensor = Sensor(folder)
    return {name: sensor.channel(name).read() for name in sensor.specs}


Spoil = Callable[[Raw], None]


def keep(chosen: Callable[[np.ndarray], np.ndarray]) -> Spoil:
    """Only some sweeps arrive: a function of their true times since the first one gives bool (sweep,)."""

    def spoil(raw: Raw) -> None:
        times = raw.truth["true_ts"] - raw.truth["true_ts"][0]
        left = chosen(times)
        for channels in (raw.lidar, raw.truth):
            channels |= {name: values[left] for name, values in channels.items()}

    return spoil


def silent(begin: float, seconds: float) -> Spoil:
    """No sweep arrives for a while."""
    return keep(lambda times: (times < begin) | (times >= begin + seconds))


def lost(share: float, rng: np.random.Generator) -> Spoil:
    """A share of the sweeps is lost, in bursts."""

    def chosen(times: np.ndarray) -> np.ndarray:
        return np.repeat(rng.random(len(times)) > share, rng.integers(1, 4, len(times)))[: len(times)]

    return keep(chosen)


def frozen(begin: float, seconds: float) -> Spoil:
    """The same sweep arrives again and again for a while."""

    def spoil(raw: Raw) -> None:
        times = raw.truth["true_ts"] - raw.truth["true_ts"][0]
        first, last = np.searchsorted(times, [begin, begin + seconds])
        for name in _IMAGES:
            raw.lidar[name][first:last] = raw.lidar[name][first]

    return spoil


def stuttering(share: float, rng: np.random.Generator) -> Spoil:
    """Some sweeps are stored in place of the one after them."""

    def spoil(raw: Raw) -> None:
        for sweep in np.flatnonzero(rng.random(len(raw.lidar[TS])) < share):
            if sweep:
                for name in _IMAGES:
                    raw.lidar[name][sweep] = raw.lidar[name][sweep - 1]

    return spoil


def dark(begin: float, seconds: float, share: float, rng: np.random.Generator) -> Spoil:
    """Only a share of the returns is left for a while."""

    def spoil(raw: Raw) -> None:
        times = raw.truth["true_ts"] - raw.truth["true_ts"][0]
        first, last = np.searchsorted(times, [begin, begin + seconds])
        raw.lidar["rng"][first:last] *= rng.random(raw.lidar["rng"][first:last].shape) < share

    return spoil


def rain(share: float, rng: np.random.Generator) -> Spoil:
    """A share of the pixels sees a drop within 5 m instead."""

    def spoil(raw: Raw) -> None:
        ranges = raw.lidar["rng"]
        drops = (500 + rng.exponential(1500, ranges.shape)).clip(500, 5000).astype(ranges.dtype)
        wet = (rng.random(ranges.shape) < share) & ((drops < ranges) | (ranges == 0))
        ranges[wet] = drops[wet]

    return spoil


def occluded(share: float, distance: float, rng: np.random.Generator) -> Spoil:
    """A board on the rig hides a share of the view at `distance`, metres."""

    def spoil(raw: Raw) -> None:
        ranges = raw.lidar["rng"]
        columns = ranges.shape[2]
        width = int(share * columns)
        angle = np.linspace(-1, 1, width) * min(share * np.pi, np.radians(75))
        board = np.broadcast_to(1000 * distance / np.cos(angle), (*ranges.shape[:2], width))
        place = (rng.integers(columns) + np.arange(width)) % columns
        ranges[:, :, place] = (board + rng.normal(0, 6, board.shape)).astype(ranges.dtype)

    return spoil


def dirty(share: float, rng: np.random.Generator) -> Spoil:
    """A share of the window is blind, in patches."""

    def spoil(raw: Raw) -> None:
        beams, columns = raw.lidar["rng"].shape[1:]
        patches = rng.random((-(-beams // 4), -(-columns // 16))) < share
        raw.lidar["rng"][:, np.kron(patches, np.ones((4, 16), bool))[:beams, :columns]] = 0

    return spoil


def reversed_beams(raw: Raw) -> None:
    """The lowest beam comes first, other than the sidecar says."""
    for name in _IMAGES:
        raw.lidar[name] = raw.lidar[name][:, ::-1]


def mirrored(raw: Raw) -> None:
    """Columns come in the wrong order: the world is seen in a mirror."""
    for name in _IMAGES:
        raw.lidar[name] = raw.lidar[name][:, :, ::-1]


def clock_set(frame: int, step: float) -> Spoil:
    """The host's clock is set forward by `step` seconds before a frame."""

    def spoil(raw: Raw) -> None:
        instant = raw.lidar[TS][frame]
        for channels in (raw.imu, raw.lidar):
            channels[TS][channels[TS] >= instant] += step

    return spoil


def jittered(mean: float, rng: np.random.Generator) -> Spoil:
    """Sweeps arrive late by a time that varies, seconds on average."""

    def spoil(raw: Raw) -> None:
        late = raw.lidar[TS] + rng.exponential(mean, len(raw.lidar[TS]))
        raw.lidar[TS][:] = np.maximum.accumulate(late) + 1e-5 * np.arange(len(late))

    return spoil


def imu_times(by: float) -> Spoil:
    """The stamps of the IMU are of another clock, later by so many seconds."""

    def spoil(raw: Raw) -> None:
        raw.imu[TS] += by

    return spoil


def imu_since_boot(raw: Raw) -> None:
    """The stamps of the IMU are seconds since it was switched on."""
    raw.imu[TS] -= raw.imu[TS][0] - 37.2


def imu_signs(signs: tuple[int, int, int]) -> Spoil:
    """Axes of the IMU point the other way."""

    def spoil(raw: Raw) -> None:
        for name in ("acc", "avel"):
            raw.imu[name] = (raw.imu[name] * signs).astype(raw.imu[name].dtype)

    return spoil


def imu_stuck(begin: float) -> Spoil:
    """The IMU gives its last value from some second on."""

    def spoil(raw: Raw) -> None:
        first = int(np.searchsorted(raw.imu[TS] - raw.imu[TS][0], begin))
        for name in ("acc", "avel"):
            raw.imu[name][first:] = raw.imu[name][first]

    return spoil


def imu_gaps(seconds: float) -> Spoil:
    """Every second half of `seconds` is missing of the IMU."""

    def spoil(raw: Raw) -> None:
        left = (raw.imu[TS] - raw.imu[TS][0]) % seconds < seconds / 2
        raw.imu.update({name: values[left] for name, values in raw.imu.items()})

    return spoil
