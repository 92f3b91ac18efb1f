"""The channels of our virtual sensors: which there are, of which type and shape, and that they say what they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rover_pipeline.format.provenance import PROVENANCE, read_provenance
from rover_pipeline.format.sensor import TS, VALID, Sensor


class Kind(NamedTuple):
    """What a channel holds: numpy type without byte order, and shape of a sample; None is any size."""

    type: str
    shape: tuple[int | None, ...] = ()

    def __str__(self) -> str:
        return f"{self.type} of [{', '.join('any' if size is None else str(size) for size in self.shape)}]"

    def fits(self, type: str, shape: tuple[int, ...]) -> bool:
        same = len(shape) == len(self.shape)
        return self.type == type and same and all(b in (None, a) for a, b in zip(shape, self.shape, strict=True))


_IMAGE, _CUBE, _VECTOR, _MATRIX = (None, None), (None, None, None), (3,), (3, 3)
_POSE = {"pos": Kind("f8", _VECTOR), "rot": Kind("f8", _MATRIX), "vel": Kind("f8", _VECTOR), "acc": Kind("f8", _VECTOR)}

#: Channels that a virtual sensor has besides `ts` and `valid`. It may have others.
CHANNELS: dict[str, dict[str, Kind]] = {
    "_lidar_image": {"rng": Kind("u2", _IMAGE), "rfl": Kind("u1", _IMAGE), "nir": Kind("u2", _IMAGE)},
    "_lidar_points": {"xyz": Kind("f4", (None, None, 3))},
    "_radar_range_doppler": {"power": Kind("f4", _IMAGE)},
    "_radar_range_azimuth": {"power": Kind("f4", _IMAGE)},
    "_radar_spectrum": {"spectrum": Kind("f2", (None, None, None, None))},
    "_radar_points": {
        "xyz": Kind("f4", (None, 3)), "doppler": Kind("f4", (None,)), "snr": Kind("f4", (None,)), "count": Kind("u2"),
    },
    "_radar_velocity": {"vel": Kind("f4", _VECTOR), "cov": Kind("f4", _MATRIX), "inliers": Kind("u2")},
    "_odom": {**_POSE, "avel": Kind("f8", _VECTOR)},
    "_truth": {**_POSE, "avel": Kind("f8", _VECTOR)},
    **dict.fromkeys(("_radar_pose", "_camera_pose", "_imu_pose"), _POSE),
    "_imu_filtered": {"acc": Kind("f4", _VECTOR), "avel": Kind("f4", _VECTOR), "quat": Kind("f4", (4,))},
    "_camera_frames": {"image": Kind("u1", (None, None, 3))},
    "_camera_depth": {"depth": Kind("u2", _IMAGE)},
    "_sync": {},
    "_occupancy": {"occupancy": Kind("u1", _CUBE)},
    "_bev": {"occupancy": Kind("u1", _IMAGE)},
}  # fmt: skip


def channel_problems(sensor: Sensor) -> Iterator[str]:
    """Channels of a virtual sensor of ours that are missing, of another kind, or without a description."""
    provenance = read_provenance(sensor.path)
    if provenance is None:
        if sensor.name in CHANNELS:
            yield (
                f"{sensor.path}: has no {PROVENANCE} of ours, so nobody knows what it was made from; move it away and "
                "run the workflow again if it is meant to be our result"
            )
        return
    if VALID not in sensor.specs:
        yield f"{sensor.path}: has a {PROVENANCE} of ours but no channel valid"
    for name, kind in {TS: Kind("f8"), VALID: Kind("u1"), **CHANNELS.get(sensor.name, {})}.items():
        spec = sensor.specs.get(name)
        if spec is None and name not in (TS, VALID):
            yield f"{sensor.path}: lacks the channel {name}, {kind}; run the workflow again"
        elif spec is not None and not kind.fits(spec.type, spec.shape):
            yield f"{sensor.path / name}: is {spec.type} of {list(spec.shape)}, must be {kind}; run the workflow again"
    if sensor.name == "_sync":
        yield from _sync_problems(sensor)
    for name, spec in sensor.specs.items():
        text = spec.desc or spec.description or ""
        if not text:
            yield f"{sensor.path / name}: has no desc in meta.json; one says what the channel is"
        elif spec.shape and "[" not in text:
            yield f"{sensor.path / name}: its desc does not list the axes of {list(spec.shape)} in brackets"


def _sync_problems(sensor: Sensor) -> Iterator[str]:
    names = [name for name in sensor.specs if name not in (TS, VALID) and not name.endswith("_dt")]
    for name in names:
        for channel, kind in ((name, Kind("i4")), (f"{name}_dt", Kind("f4"))):
            spec = sensor.specs.get(channel)
            if spec is None:
                yield f"{sensor.path}: lacks the channel {channel}, {kind}; run the workflow again"
            elif not kind.fits(spec.type, spec.shape):
                yield f"{sensor.path / channel}: is {spec.type} of {list(spec.shape)}, must be {kind}"
