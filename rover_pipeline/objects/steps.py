"""Virtual sensor `_objects`: bodies that move, with their boxes and velocities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from rover_pipeline.clocks.clock import corrected
from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection
from rover_pipeline.kinematics.mount import find_mount, mount_warnings
from rover_pipeline.kinematics.stated import mount_notes
from rover_pipeline.kinematics.sweep import SweepMotion
from rover_pipeline.lidar.sweeps import lidar_reader
from rover_pipeline.mapping.floor import levelling
from rover_pipeline.mapping.sweeps import spread_floor
from rover_pipeline.mapping.tuning import TUNING as OF_MAPS
from rover_pipeline.numerics.blocks import release
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.objects.bodies import Body, Echoes, moving_body, still_body
from rover_pipeline.objects.clusters import Clusters
from rover_pipeline.objects.detect import FAR_S, Detector, lidar_view
from rover_pipeline.objects.merging import merged_tracks
from rover_pipeline.objects.options import CLASSES, ObjectsOptions
from rover_pipeline.objects.tracking import track_clusters
from rover_pipeline.objects.tuning import TUNING, TYPICAL
from rover_pipeline.radar.axes import max_doppler
from rover_pipeline.radar.timing import frame_duration

#: Squared distance, in spreads, within which 95 % of a class are, at which an object is as likely "other"; and the
#: remaining share, the minimum probability of "other". Noise: chi-square with 4 degrees of freedom.
_OTHER, _MIN_OTHER = 9.49, 0.05


def objects(
    recording: Recording,
    *,
    metadata: str,
    odometry: Mapping[str, np.ndarray],
    options: ObjectsOptions,
    config: str | None = None,
    sidecar: str | None = None,
    radar: str | None = None,
    points: Mapping[str, np.ndarray] | None = None,
    up: str | None = None,
) -> Iterator[dict[str, np.ndarray] | Inspection]:
    """Bodies that move, at the instants of the sweeps.

    Args:
        recording: of `rng`, u2 (frame, beam, column), mm, destaggered; or of points: `xyz`, `count` and `time`.
        metadata: `lidar.json`, the sensor's own, or that of points.
        odometry: the channels of `_odom`.
        config: `config.yaml`; sidecar: `radar.json`; radar: the radar's `meta.json`.
        points: the channels of `_radar_points`, if there are some; up: `up.json` of `_odom`.

    Yields:
        The channels of `_objects`, and at last figures. A sweep without a valid pose has no objects and is not valid.

    Raises:
        ValueError: `_odom` is of other sweeps.
    """
    if not np.array_equal(odometry["ts"], recording.ts):
        raise ValueError("_odom/ts differs from that of the lidar; make both again from this lidar")
    view = lidar_view(recording, metadata, odometry, options)
    usable = np.zeros(recording.count, bool) if view is None else view.motion.trajectory.valid & (recording.valid != 0)
    if view is None or not usable.any():
        why = "a point and a valid pose in _odom" if view is None else "a valid pose in _odom: there are no objects"
        yield _empty(usable, options.max_objects)
        yield Inspection({"tracks": 0}, [f"no sweep has {why}"])
        return
    read, metadata, motion, notes = view
    lidar, near = lidar_reader(metadata, options.lidar.ts_reference), (options.min_range, OF_MAPS.floor_range_m)
    floor = spread_floor(lambda number: {"rng": read(number)}, lidar, motion, np.flatnonzero(usable), near, up)
    level = levelling(floor.up)
    motion = motion.rotated(level)
    origin = float(motion.trajectory.ts[0])
    detector = Detector(read, metadata, motion, usable, options, origin)
    # Those of two wide steps of the evidence are looked at together: they share a ground, and what is read for it.
    size = max(1, round(2 * FAR_S / motion.interval))
    ranges = [(start, min(start + size, recording.count)) for start in range(0, recording.count, size)]
    moves, stands = map(list, zip(*recording.map(detector, ranges), strict=True))
    stamps, memory = motion.trajectory.ts - origin, recording.memory()
    release()
    echoes, warnings, assumed = None, list(notes), []
    if points is not None and options.radar:
        frame = frame_duration(points["ts"], config, sidecar, radar)
        mount = find_mount("radar", options.rig, config)
        warnings += [*frame.warnings, *mount_warnings("radar", options.rig, mount)]
        assumed = mount_notes("radar", rig=options.rig, recorded=config)
        instants = corrected("radar", points["ts"], points["ts"], options.times) + frame.middle
        echoes = Echoes.of(points, instants, motion.trajectory, mount, max_doppler(sidecar), origin, memory)
    moving = Clusters(*map(memory.hold, Clusters.joined(moves)))
    count = len(moving.time)
    step = 2 * np.pi / lidar.columns
    bodies = _moving(moving, stamps, echoes, options, step)
    del moving
    standing = _standing(Clusters.joined(stands), stamps, options) if options.still else []
    everything, written = [*bodies, *standing], 0
    for channels in _boxes(everything, motion, level, usable, ranges, options.max_objects):
        written += int(channels["count"].sum())
        yield channels
    measured = {
        "clusters": count,
        "tracks": len(bodies),
        "tracks_standing": len(standing),
        "tracks_with_radar": sum(body.radar for body in bodies),
        "dropped_beyond_max_objects": sum(int(usable[body.sweep].sum()) for body in everything) - written,
        "classes": list(CLASSES),
        "classes_by": "rules of size and speed; nothing is labelled or learned",
        "up": floor.up.tolist(),  # exports turn boxes about it
    }
    yield Inspection(measured, warnings, notes=assumed)


def _empty(usable: np.ndarray, max_objects: int) -> dict[str, np.ndarray]:
    shape = (len(usable), max_objects)
    sizes = {"centre": (3,), "extent": (3,), "vel": (3,), "vel_sd": (), "yaw": (), "probability": (len(CLASSES),)}
    return {
        **{name: np.full((*shape, *size), np.nan, "f4") for name, size in sizes.items()},
        "track": np.full(shape, -1, "i4"),
        "measured": np.zeros(shape, "u1"),
        "count": np.zeros(len(usable), "u2"),
        "valid": usable,
    }


def _moving(
    clusters: Clusters, stamps: np.ndarray, echoes: Echoes | None, options: ObjectsOptions, step: float
) -> list[Body]:
    """The bodies that have moved."""

    def body(own: Clusters) -> Body:
        alone = moving_body(own, stamps, None, step)
        radial = None if echoes is None else echoes.of_body(alone, stamps[alone.sweep])
        return alone if radial is None else moving_body(own, stamps, radial, step)

    tracks = track_clusters(clusters, stamps, options.coast)
    found = merged_tracks(tracks, body, stamps, options.min_hits, options.coast)
    return [each for each in found if each.way >= options.min_way]


def _standing(clusters: Clusters, stamps: np.ndarray, options: ObjectsOptions) -> list[Body]:
    tracks = track_clusters(clusters, stamps, options.coast)
    return [still_body(own, stamps, options.min_way) for own in tracks if len(own.time) >= options.min_hits]


def _boxes(
    bodies: list[Body],
    motion: SweepMotion,
    level: np.ndarray,
    usable: np.ndarray,
    ranges: list[tuple[int, int]],
    max_objects: int,
) -> Iterator[dict[str, np.ndarray]]:
    """The channels of ranges of sweeps, nearest objects first.

    Args:
        bodies: in a world whose z is up; level: (3, 3), that world from the frame of `_odom`.
    """
    places: dict[int, list[tuple[float, int, int]]] = {}
    for number, body in enumerate(bodies):
        away = np.linalg.norm(body.centre - motion.trajectory.states.pos[body.sweep], axis=1)
        for at, (sweep, distance) in enumerate(zip(body.sweep.tolist(), away.tolist(), strict=True)):
            if usable[sweep]:
                places.setdefault(sweep, []).append((distance, number, at))
    speeds = [float(np.median(np.linalg.norm(body.vel[:, :2], axis=1))) for body in bodies]
    classes = [probabilities(body.extent, speed) for body, speed in zip(bodies, speeds, strict=True)]
    for start, stop in ranges:
        result = _empty(usable[start:stop], max_objects)
        for place in range(stop - start):
            listed = sorted(places.get(start + place, []))[:max_objects]
            for row, (_, number, at) in enumerate(listed):
                body = bodies[number]
                ahead = matmul(level.T, [np.cos(body.yaw[at]), np.sin(body.yaw[at]), 0.0])
                result["centre"][place, row] = matmul(level.T, body.centre[at])
                result["extent"][place, row] = body.extent
                result["vel"][place, row] = matmul(level.T, body.vel[at])
                result["vel_sd"][place, row] = body.vel_sd[at]
                result["yaw"][place, row] = np.arctan2(ahead[1], ahead[0])
                result["track"][place, row] = number
                result["probability"][place, row] = classes[number]
                result["measured"][place, row] = body.measured[at]
            result["count"][place] = len(listed)
        yield result


def probabilities(extent: np.ndarray, speed: float) -> np.ndarray:
    """Probability of each class, f8 (class,), in the order of `options.CLASSES`.

    Args:
        extent: f8 (3,), length, width and height, m.
        speed: median of the track, m/s; 0 = it stands, so that the speed says nothing.
    """
    values = np.log([*extent, max(speed, TUNING.min_speed)])
    weights = np.array([1.0, 1.0, 1.0, float(speed > 0)])
    distance = np.full(len(CLASSES), _OTHER)
    for number, name in enumerate(CLASSES):
        if name in TYPICAL:
            middle, factor = np.log(np.array(TYPICAL[name])).T
            distance[number] = (weights * ((values - middle) / factor) ** 2).sum()
    fit = np.exp(-(distance - distance.min()) / 2)
    fit /= fit.sum()
    fit *= 1 - _MIN_OTHER
    fit[CLASSES.index("other")] += _MIN_OTHER
    return np.asarray(fit)
