"""Records a simulated rig: a trace as the real rig records it, sensor by sensor, with the ground truth beside it.

This is the only module of the simulator that writes files, but for the faults, which damage written ones.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from rover_pipeline.draw.formatting import count as counted
from rover_pipeline.engine.parallel import ordered_map
from rover_pipeline.engine.progress import progress
from rover_pipeline.format.channels import encode_sample
from rover_pipeline.format.files import replace_file, replace_json
from rover_pipeline.format.meta import ChannelSpec, raw
from rover_pipeline.format.provenance import PROVENANCE, of_source
from rover_pipeline.format.sensor import VALID, VALID_SPEC, SensorWriter
from rover_pipeline.format.trace import CONFIG, new_trace
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.simulate.faults import FAULTS
from rover_pipeline.simulate.presets import Preset, choose
from rover_pipeline.simulate.rig import EPOCH, PACKETS_LOST_EVERY, Rig, Tick, build, is_lost
from rover_pipeline.simulate.sensors import camera, imu, lidar, radar
from rover_pipeline.simulate.sensors.radar import NODES, bursts, paths, scatter, with_ghosts

# The ground truth: the states of the sensors and of the moving bodies at the instants of the samples.
#
# The world frame of the truth is the pose of the main lidar at its first sample, where an estimate starts.


class Truth:
    """The ground truth of one sensor of a rig, and of `bodies` that move, in the world frame."""

    def __init__(self, rig: Rig, sensor: str) -> None:
        self._rig, self._sensor, self._motion = rig, sensor, rig.mounted(sensor)
        self._is_radar = rig.sensors[sensor].type == "radar"
        self.bodies = len(rig.world.bodies) if self._is_radar or rig.sensors[sensor].type == "lidar" else 0
        first = rig.motion.at(np.array([rig.clocks[rig.main].start]))
        #: Pose of the world frame in the scene frame.
        self._pos, self._rot = first.pos[0], first.rot[0]

    def at(self, ticks: Sequence[Tick]) -> dict[str, np.ndarray]:
        """The truth about some samples: channel name -> array with the samples along its first axis."""
        times = np.array([tick.time for tick in ticks])
        state = self._motion.at(times)
        state = state._replace(pos=state.pos - self._pos).rotated(self._rot.T)
        rows: dict[str, np.ndarray] = {"true_ts": EPOCH + times, **state._asdict()}
        if self._is_radar:
            middle = self._motion.at(times + self._rig.of(self._sensor).radar.duration / 2)
            rows["ego_vel"] = matmul(middle.vel[:, None], middle.rot)[:, 0]
        if self.bodies:
            states = np.array([self._rig.world.body_states(tick.time) for tick in ticks])
            pos, vel = matmul(states[..., :3] - self._pos, self._rot), matmul(states[..., 3:], self._rot)
            rows["bodies"] = np.concatenate([pos, vel], -1)
        return rows

    def objects(self, tick: Tick, returns: np.ndarray) -> dict[str, np.ndarray | float]:
        """The boxes of all moving bodies at one sample, in the channels of `_objects` as far as these are known.
        `returns`: of the sweep from each body, i8 (body,)."""
        bodies = self._rig.world.bodies
        boxes = [body.box() for body in bodies]
        at = [body.at(tick.time) for body in bodies]
        centre = np.array([pos + matmul(rot, middle) for (pos, rot, _), (middle, _) in zip(at, boxes, strict=True)])
        ahead = matmul(np.array([rot[:, 0] for _, rot, _ in at]), self._rot)
        return {
            "centre": matmul(centre - self._pos, self._rot)[None],
            "extent": np.array([extent for _, extent in boxes])[None],
            "vel": matmul(np.array([vel for *_, vel in at]), self._rot)[None],
            "yaw": np.arctan2(ahead[:, 1], ahead[:, 0])[None],
            "track": np.arange(len(bodies), dtype="i4")[None],
            "returns": returns.astype("u4")[None],
        }

    def description(self) -> dict[str, object]:
        """What does not change with time: the content of `truth.json`.

        All positions are in the world frame, metres; `up` is the direction away from gravity there.
        """
        rig = self._rig
        return {
            "seed": rig.seed,
            "preset": rig.preset.describe(),
            "up": self._rot[2].tolist(),
            "bodies": [body.name for body in rig.world.bodies],
            "targets": [
                {"name": target.name, "position": matmul(np.array(target.centre) - self._pos, self._rot).tolist()}
                for target in rig.world.targets
            ],
            "clocks": {name: vars(clock) for name, clock in rig.clocks.items()},
            "mounts": {
                name: {"translation": mount.translation.tolist(), "rotation": mount.rotation.tolist()}
                for name, mount in rig.mounts.items()
            },
            **{
                f"{name}_errors": rig.imu_errors(name).description()
                for name, sensor in rig.sensors.items()
                if sensor.type == "imu"
            },
        }


def truth_specs(type: str, bodies: int) -> dict[str, ChannelSpec]:
    specs = {
        VALID: VALID_SPEC,
        "true_ts": raw("f8", (), "Instant the sample refers to, seconds since the Unix epoch."),
        "pos": raw("f8", (3,), "Position in the world, m. [xyz]"),
        "rot": raw("f8", (3, 3), "World-from-sensor rotation. [world, sensor]"),
        "vel": raw("f8", (3,), "Velocity in the world, m/s. [xyz]"),
        "acc": raw("f8", (3,), "Acceleration in the world, m/s2. [xyz]"),
        "avel": raw("f8", (3,), "Angular velocity in the sensor frame, rad/s. [xyz]"),
    }
    if type == "radar":
        desc = "Velocity over ground in the radar frame in the middle of the frame's chirps, m/s. [xyz]"
        specs["ego_vel"] = raw("f8", (3,), desc)
    if bodies:
        desc = "Feet and velocity of the moving bodies of truth.json in the world, m, m/s. [body, xyz and velocity]"
        specs["bodies"] = raw("f8", (bodies, 6), desc)
    return specs


def object_specs(bodies: int) -> dict[str, ChannelSpec]:
    vector = (bodies, 3)
    return {
        VALID: VALID_SPEC,
        "centre": raw("f8", vector, "Middle of the box of each body of truth.json in the world, m. [body, xyz]"),
        "extent": raw("f8", vector, "Length, width and height of the box along its own axes, m. [body, xyz]"),
        "vel": raw("f8", vector, "Velocity in the world, m/s. [body, xyz]"),
        "yaw": raw("f8", (bodies,), "Where the body heads in the world, rad, to the left of x. [body]"),
        "track": raw("i4", (bodies,), "Number of the body. [body]"),
        "returns": raw("u4", (bodies,), "Number of the sweep's returns from the body. [body]"),
    }


_TRUTH_SIDECAR = "truth.json"
#: What a sample of the lidar holds besides its channels: the number of its returns from each moving body.
_RETURNS = "returns of bodies"
_TRUTH_OBJECTS = "_truth_objects"
#: Results that are held for each thread. At the end of half of them one thread waits for another one. Schedule.
_HELD = 32
#: Samples of the IMU, and of the truth, that are computed together: far less work than one by one. Schedule.
_IMU_BATCH, _TRUTHS = 64, 256


def simulate(
    out: Path,
    *,
    preset: str | Preset = "indoor",
    duration: float | None = None,
    seed: int = 0,
    faults: Sequence[str] = (),
    threads: int | None = None,
    sensors: Collection[str] | None = None,
    say: Callable[[str], object] | None = None,
    lens: str | None = None,
    alter: Callable[[Rig], Rig] | None = None,
) -> None:
    """Make `out` a roverd trace with known truth. The same arguments give the same bytes with any number of threads.

    The trace appears in one rename once it is whole.

    Args:
        preset: one of `PRESETS`, or a variant of one.
        duration: seconds; that of the preset unless given.
        seed: of noise, losses and scatterers.
        faults: names from `FAULTS`, and names of `Unkind` with hyphens, with or without a value: `gyro-bias=0.02`.
        threads: as many as this process may use unless given.
        sensors: names of those of the rig that are recorded; all of them unless given.
        say: receives a message that says how long it will take, before it begins. For that, two samples of each sensor
            are made first.
        lens: of the cameras, from `LENSES`; that of the preset unless given.
        alter: makes another rig of that of the preset, such as one in a world of the caller's own.

    Raises:
        ConfigError: a name is unknown, or the duration too short for every sensor to have a sample.
        InTheWayError: `out` exists and is not empty.
    """
    preset, seconds, damages = choose(preset, duration, seed, faults, lens)
    rig = build(preset, seed)
    if alter is not None:
        rig = alter(rig)
    threads = threads or len(os.sched_getaffinity(0))
    chosen = [name for name in rig.sensors if sensors is None or name in sensors]
    with new_trace(out) as folder:
        if say is not None:
            takes, along = _estimate(rig, chosen, seconds, threads), counted(threads, "thread")
            say(f"simulate: {seconds:g} s of recording will take about {max(1, round(takes))} s with {along}")
        for sensor in chosen:
            _record_sensor(folder, sensor, rig, seconds, threads)
        replace_file(folder / CONFIG, yaml.safe_dump(rig.config(), sort_keys=False, default_flow_style=None))
        for fault in damages:
            FAULTS[fault](folder)


def _estimate(rig: Rig, sensors: Sequence[str], duration: float, threads: int) -> float:
    """Seconds that the recording will take, from one sample of each sensor; another one before it compiles kernels."""
    total = 0.0
    for sensor in sensors:
        source, clock = _SOURCES[rig.sensors[sensor].type](rig, sensor), rig.clocks[sensor]
        ticks = next(_batches(clock.ticks(duration, rig.key(sensor)), source.batch))
        for _ in range(2):
            begin = time.monotonic()
            for values in source.samples(ticks):
                for name in source.channels.keys() & values.keys():
                    _stored(source.channels[name], values[name])
            seconds = time.monotonic() - begin
        total += seconds / len(ticks) * clock.count(duration) / (1 if source.batch > 1 else threads)
    return total


def _batches(ticks: Iterator[Tick], size: int) -> Iterator[list[Tick]]:
    return iter(lambda: list(itertools.islice(ticks, size)), [])


def _record_sensor(folder: Path, sensor: str, rig: Rig, duration: float, threads: int) -> None:
    """Write one sensor and its truth."""
    type, is_main = rig.sensors[sensor].type, sensor == rig.main
    source, truth, clock = _SOURCES[type](rig, sensor), Truth(rig, sensor), rig.clocks[sensor]
    truth_name = "_truth" if is_main else f"_truth_{sensor}"
    # It takes longer to hand a sample of an IMU to a thread than to compute it.
    threads = 1 if source.batch > 1 else threads
    silence = rig.preset.unkind.lidar_silence if type == "lidar" else 0.0

    def ticks() -> Iterator[Tick]:
        every = clock.ticks(duration, rig.key(sensor))
        return (tick for tick in every if abs(tick.time - duration / 2) >= silence / 2)

    def sample(some: Sequence[Tick]) -> list[tuple[Tick, dict[str, np.ndarray | int | bytes], np.ndarray | int]]:
        made = []
        for tick, values in zip(some, source.samples(some), strict=True):
            returns = values.pop(_RETURNS, 0)
            stored = {name: _stored(source.channels[name], value) for name, value in values.items()}
            made.append((tick, stored, returns))
        return made

    written = {truth_name: truth_specs(type, truth.bodies)}
    if is_main and truth.bodies:
        written[_TRUTH_OBJECTS] = object_specs(truth.bodies)
    with (
        ExitStack() as stack,
        progress(f"simulate {sensor}", clock.count(duration)) as advance,
        SensorWriter(folder / sensor, source.channels) as writer,
    ):
        truths = {name: stack.enter_context(SensorWriter(folder / name, specs)) for name, specs in written.items()}
        batches = _batches(ticks(), source.batch)
        for made in ordered_map(sample, batches, threads=threads, held=_HELD * threads):
            for tick, values, returns in made:
                writer.append(ts=tick.stamp, **values)
                if _TRUTH_OBJECTS in truths:
                    truths[_TRUTH_OBJECTS].append(ts=tick.stamp, valid=1, **truth.objects(tick, np.asarray(returns)))
                advance(1)
        for some in _batches(ticks(), _TRUTHS):
            stamps = np.array([tick.stamp for tick in some])
            truths[truth_name].append(ts=stamps, valid=np.ones(len(some)), **truth.at(some))
        if source.sidecar is not None:
            replace_json(folder / sensor / f"{sensor}.json", source.sidecar)
        if is_main:
            replace_json(folder / truth_name / _TRUTH_SIDECAR, truth.description())
        for name, each in truths.items():
            files = [*sorted(each.specs), *([_TRUTH_SIDECAR] if name == "_truth" else [])]
            options = {"preset": rig.preset.describe(), "seed": rig.seed}
            replace_json(folder / name / PROVENANCE, of_source(name, "simulate", options, files))


class _Source(NamedTuple):
    """One sensor as a source of samples."""

    channels: dict[str, ChannelSpec]  #: of the sensor, besides `ts`.
    #: makes the samples of some ticks in any thread: channel name -> one value or array, for each.
    samples: Callable[[Sequence[Tick]], Iterable[dict[str, np.ndarray | int]]]
    sidecar: dict[str, object] | None  #: content of the JSON file beside the channels, if there is one.
    batch: int = 1  #: samples that are made together.


def _lidar(rig: Rig, sensor: str) -> _Source:
    columns, rate, motion = rig.of(sensor).columns, rig.of(sensor).lidar_rate, rig.mounted(sensor)
    beams, errors, rays = rig.lidars[sensor]
    shape = (beams.count, columns)

    def sample(tick: Tick) -> dict[str, np.ndarray | int]:
        echoes = lidar.sweep(rig.world, motion, rays, tick.time, 1 / rate)
        random = rig.random(sensor, tick.number)
        infrared = rig.world.light.infrared
        scan = lidar.measure(echoes, rays, beams.detection_range, infrared, random, errors)
        hit = echoes.body[(scan.rng > 0) & (echoes.body >= 0)]
        return {**scan._asdict(), _RETURNS: np.bincount(hit, minlength=len(rig.world.bodies))}

    channels = {
        "rng": ChannelSpec(format="lzmaf", type="u2", shape=shape, desc="Range, mm, staggered. [beam, column]"),
        "rfl": ChannelSpec(format="lzmaf", type="u1", shape=shape, desc="Reflectivity, staggered. [beam, column]"),
        "nir": ChannelSpec(format="lzmaf", type="u2", shape=shape, desc="Near infrared, staggered. [beam, column]"),
    }
    return _Source(channels, partial(map, sample), lidar.metadata(beams, columns, rate))


def _radar(rig: Rig, sensor: str) -> _Source:
    chirps, unkind = rig.of(sensor).radar, rig.of(sensor).unkind
    motion, scatterers, key = rig.mounted(sensor), scatter(rig.world, rig.seed), rig.key(sensor)
    errors = rig.radar_errors(sensor)

    def sample(tick: Tick) -> dict[str, np.ndarray | int]:
        times = tick.time + NODES * chirps.duration
        state = motion.at(times)
        echoes = paths(rig.world, scatterers, times, state.pos, state.rot, chirps.max_range)
        if unkind.multipath:
            echoes = with_ghosts(echoes, state.pos[:, 2], state.rot, unkind.multipath)
        random = rig.random(sensor, tick.number)
        signal = radar.synthesize(chirps, echoes)
        if errors is not None:
            signal = errors.applied(signal, random)
        if unkind.interference:
            signal = signal + bursts(chirps, unkind.interference, np.random.default_rng([*key, 4, tick.number]))
        words = radar.digitize(signal * 10 ** (unkind.radar_gain / 20), chirps.is_real, random)
        if is_lost(tick.number, PACKETS_LOST_EVERY, (*key, 3)):
            return {"iq": radar.drop_packets(words, random), VALID: 0}
        return {"iq": words, VALID: 1}

    axes = "[chirp, tx, rx, sample]" if chirps.is_real else "[chirp, tx, rx, word], words in groups Q Q I I"
    sidecar: dict[str, object] = {
        "shape": list(chirps.shape),
        "range_resolution": chirps.range_resolution,
        "doppler_resolution": chirps.doppler_resolution,
    }
    iq = raw("i2", (*chirps.shape[:3], chirps.words), f"ADC counts. {axes}")
    return _Source({"iq": iq, VALID: VALID_SPEC}, partial(map, sample), sidecar)


def _camera(rig: Rig, sensor: str) -> _Source:
    motion, lens = rig.mounted(sensor), rig.lens(sensor)

    def sample(tick: Tick) -> dict[str, np.ndarray | int]:
        state = motion.at(np.array([tick.time]))
        return {"video.avi": camera.picture(rig.world, lens, tick.time, state.pos[0], state.rot[0])}

    shape = (lens.height, lens.width, 3)
    video = ChannelSpec(format="mjpg", type="u1", shape=shape, desc="Pictures, RGB. [row, column, colour]")
    intrinsics = lens.describe()
    if lens.is_fisheye:
        del intrinsics["model"]  # the real rig's file does not name it either
    return _Source({"video.avi": video}, partial(map, sample), intrinsics)


def _imu(rig: Rig, sensor: str) -> _Source:
    motion, errors = rig.mounted(sensor), rig.imu_errors(sensor)

    def samples(ticks: Sequence[Tick]) -> Iterator[dict[str, np.ndarray | int]]:
        ideal = imu.ideal_reading(motion.at(np.array([tick.time for tick in ticks])))
        for number, tick in enumerate(ticks):
            one = imu.Reading(*(values[number : number + 1] for values in ideal))
            reading = imu.measure(one, errors, rig.random(sensor, tick.number))
            yield {name: values[0] for name, values in reading._asdict().items()}

    channels = {
        "rot": raw("f4", (3,), "Orientation: roll, pitch, yaw, rad, intrinsic XYZ."),
        "acc": raw("f4", (3,), "Acceleration, gravity included, m/s2. [xyz]"),
        "avel": raw("f4", (3,), "Angular velocity, rad/s. [xyz]"),
    }
    return _Source(channels, samples, None, batch=_IMU_BATCH)


def _gnss(rig: Rig, sensor: str) -> _Source:
    motion, noise = rig.mounted(sensor), imu.GNSS_NOISE * rig.sensors[sensor].noise

    def samples(ticks: Sequence[Tick]) -> Iterator[dict[str, np.ndarray | int]]:
        pos = motion.at(np.array([tick.time for tick in ticks])).pos
        errors = [noise * rig.random(sensor, tick.number).standard_normal(3) for tick in ticks]
        for place in imu.geodetic(pos + errors):
            yield {**dict(zip(("lat", "lon", "alt"), place, strict=True)), "cov": np.diag(noise**2)}

    channels = {
        "lat": raw("f8", (), "Latitude on the ellipsoid WGS 84, degrees."),
        "lon": raw("f8", (), "Longitude, degrees."),
        "alt": raw("f8", (), "Height above the ellipsoid, m."),
        "cov": raw("f4", (3, 3), "Covariance of the position, m2. [east north up, east north up]"),
    }
    return _Source(channels, samples, None, batch=_IMU_BATCH)


_SOURCES = {"lidar": _lidar, "radar": _radar, "camera": _camera, "imu": _imu, "gnss": _gnss}


def _stored(spec: ChannelSpec, value: np.ndarray | int) -> np.ndarray | int | bytes:
    """A value as its channel's writer takes it: encoded, or with a first axis of length one."""
    if isinstance(value, int):
        return value
    return value[None] if spec.format == "raw" else encode_sample(spec.format, value)
