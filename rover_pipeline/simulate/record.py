"""Writes a simulated rig's trace, sensor by sensor, as the real rig records it, with the truth beside it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
import yaml

from rover_pipeline.engine.progress import progress
from rover_pipeline.format.channels import encode_sample
from rover_pipeline.format.meta import ChannelSpec, replace_file
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.format.trace import CONFIG, new_trace
from rover_pipeline.simulate import camera, imu, lidar, ouster, radar
from rover_pipeline.simulate.clocks import Tick, is_struck
from rover_pipeline.simulate.faults import FAULTS
from rover_pipeline.simulate.ordered import in_order
from rover_pipeline.simulate.rig import PACKETS_LOST_EVERY, Rig
from rover_pipeline.simulate.scatterers import NODES, paths, scatter
from rover_pipeline.simulate.truth import Truth, description


def record(
    out: Path,
    rig: Rig,
    duration: float,
    faults: Sequence[str] = (),
    threads: int = 1,
    sensors: Collection[str] | None = None,
) -> None:
    """Make `out` a trace of `duration` seconds, of some sensors or all; it appears in one rename when all is there."""
    with new_trace(out) as folder:
        for name, write in _WRITERS.items():
            if sensors is not None and name not in sensors:
                continue
            total = rig.clocks[name].count(duration)
            with progress(f"simulate {name}", total) as advance, Truth(folder, name, rig) as truth:
                for tick in write(folder / name, rig, duration, threads):
                    truth.append(tick)
                    advance(1)
                if name == "lidar":
                    truth.add_sidecar(description(rig, truth))
        replace_file(folder / CONFIG, yaml.safe_dump(rig.config(), sort_keys=False, default_flow_style=None))
        for fault in faults:
            FAULTS[fault].damage(folder)


def _lidar(folder: Path, rig: Rig, duration: float, threads: int) -> Iterator[Tick]:
    beams, columns, period = rig.beams, rig.preset.columns, 1 / rig.preset.lidar_rate
    shape = (beams.count, columns)
    specs = {
        TS: TS_SPEC,
        "rng": ChannelSpec(format="lzmaf", type="u2", shape=shape, desc="Range, mm, staggered. [beam, column]"),
        "rfl": ChannelSpec(format="lzmaf", type="u1", shape=shape, desc="Reflectivity, staggered. [beam, column]"),
        "nir": ChannelSpec(format="lzmaf", type="u2", shape=shape, desc="Near infrared, staggered. [beam, column]"),
    }
    rays = lidar.rays(beams, columns)

    def make(tick: Tick) -> tuple[Tick, list[bytes]]:
        echoes = lidar.sweep(rig.world, rig.motion, rays, tick.time, period)
        random = rig.random("lidar", tick.number)
        scan = lidar.measure(echoes, rays, beams.reach, rig.world.light.infrared, random)
        return tick, [encode_sample("lzmaf", image) for image in scan]

    with SensorWriter(folder, specs) as writer:
        for tick, encoded in in_order(make, rig.clocks["lidar"].ticks(duration, rig.key("lidar")), threads):
            writer.append(ts=tick.stamp)
            for name, data in zip(lidar.Scan._fields, encoded, strict=True):
                writer.encoded(name).append_encoded(data)
            yield tick
        _sidecar(folder / "lidar.json", ouster.metadata(beams, columns, rig.preset.lidar_rate))


def _radar(folder: Path, rig: Rig, duration: float, threads: int) -> Iterator[Tick]:
    chirps = rig.preset.radar
    *shape, samples = chirps.shape
    axes = "[chirp, tx, rx, sample]" if chirps.is_real else "[chirp, tx, rx, word], words in groups Q Q I I"
    specs = {
        TS: TS_SPEC,
        "iq": ChannelSpec(format="raw", type="i2", shape=(*shape, chirps.words), desc=f"ADC counts. {axes}"),
        VALID: VALID_SPEC,
    }
    motion, points, key = rig.mounted("radar"), scatter(rig.world, rig.seed), rig.key("radar")

    def make(tick: Tick) -> tuple[Tick, np.ndarray, int]:
        times = tick.time + NODES * chirps.duration
        state = motion.at(times)
        echoes = paths(rig.world, points, times, state.pos, state.rot, chirps.max_range)
        random = rig.random("radar", tick.number)
        words = radar.digitize(radar.synthesize(chirps, echoes), chirps.is_real, random)
        if is_struck(tick.number, PACKETS_LOST_EVERY, (*key, 3)):
            return tick, radar.lose_packets(words, random), 0
        return tick, words, 1

    with SensorWriter(folder, specs) as writer:
        for tick, words, valid in in_order(make, rig.clocks["radar"].ticks(duration, key), threads):
            writer.append(ts=tick.stamp, iq=words[None], valid=valid)
            yield tick
        _sidecar(
            folder / "radar.json",
            {
                "shape": [*shape, samples],
                "range_resolution": chirps.range_resolution,
                "doppler_resolution": chirps.doppler_resolution,
            },
        )


def _camera(folder: Path, rig: Rig, duration: float, threads: int) -> Iterator[Tick]:
    shape = (rig.lens.height, rig.lens.width, 3)
    specs = {
        TS: TS_SPEC,
        "video.avi": ChannelSpec(format="mjpg", type="u1", shape=shape, desc="Pictures, RGB. [row, column, colour]"),
    }
    motion = rig.mounted("camera")

    def make(tick: Tick) -> tuple[Tick, bytes]:
        state = motion.at(np.array([tick.time]))
        return tick, encode_sample("mjpg", camera.picture(rig.world, rig.lens, tick.time, state.pos[0], state.rot[0]))

    with SensorWriter(folder, specs) as writer:
        for tick, jpeg in in_order(make, rig.clocks["camera"].ticks(duration, rig.key("camera")), threads):
            writer.append(ts=tick.stamp)
            writer.encoded("video.avi").append_encoded(jpeg)
            yield tick
        _sidecar(folder / "camera.json", rig.lens.describe())


def _imu(folder: Path, rig: Rig, duration: float, _threads: int) -> Iterator[Tick]:
    specs = {
        TS: TS_SPEC,
        "rot": ChannelSpec(
            format="raw", type="f4", shape=(3,), desc="Orientation: roll, pitch, yaw, rad, intrinsic XYZ."
        ),
        "acc": ChannelSpec(format="raw", type="f4", shape=(3,), desc="Acceleration, gravity included, m/s2. [xyz]"),
        "avel": ChannelSpec(format="raw", type="f4", shape=(3,), desc="Angular velocity, rad/s. [xyz]"),
    }
    motion, errors = rig.mounted("imu"), imu.Errors.of_device(rig.key("imu"))
    with SensorWriter(folder, specs) as writer:
        for tick in rig.clocks["imu"].ticks(duration, rig.key("imu")):
            exact = imu.feel(motion.at(np.array([tick.time])))
            reading = imu.measure(exact, errors, rig.random("imu", tick.number))
            writer.append(ts=tick.stamp, rot=reading.rot, acc=reading.acc, avel=reading.avel)
            yield tick


_WRITERS = {"lidar": _lidar, "radar": _radar, "camera": _camera, "imu": _imu}


def _sidecar(path: Path, content: dict[str, object]) -> None:
    replace_file(path, json.dumps(content, indent=2) + "\n")
