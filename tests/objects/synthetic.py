"""Clusters of a box that drives along a known way, as a lidar that turns clockwise sees it, without a lidar."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rover_pipeline.objects.clusters import Clusters, outlined, sampled

PERIOD = 0.1
#: Angle between neighbouring columns of the lidar, rad.
STEP = 2 * np.pi / 1024
#: Gives place, m, and heading, rad, at times, s.
Way = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def bend(speed: float, radius: float, begin: float = 1.5, turn: float = np.pi / 2) -> Way:
    """A straight way along x, a bend to the left that begins after some seconds, and a straight way."""
    rate = speed / radius

    def way(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        yaw = np.clip((times - begin) * rate, 0.0, turn)
        before, after = np.minimum(times, begin), np.maximum(times - begin - turn / rate, 0.0)
        x = speed * (before + after * np.cos(turn)) + radius * np.sin(yaw)
        y = speed * after * np.sin(turn) + radius * (1 - np.cos(yaw))
        return np.column_stack([x, y]), yaw

    return way


def velocities(way: Way, times: np.ndarray) -> np.ndarray:
    """f8 (N, 2), m/s."""
    return (way(times + 1e-4)[0] - way(times - 1e-4)[0]) / 2e-4


def seen(
    way: Way,
    size: tuple[float, float],
    stamps: np.ndarray,
    lidar: tuple[float, float],
    seed: int,
    hidden: Callable[[int], tuple[float, float]] = lambda sweep: (-np.inf, np.inf),
    height: float = 1.5,
) -> Clusters:
    """The clusters of a box of this length and width at the sweeps' ends, f8 (sweep,), s.

    Args:
        hidden: gives for a sweep the part along the length, m from the middle, that something nearer leaves to see.
    """
    rng, origin, half = np.random.default_rng(seed), np.array(lidar), np.array(size) / 2
    result = []
    for sweep, stamp in enumerate(stamps.tolist()):
        place, yaw = way(np.array([stamp]))
        spacing = STEP * float(np.linalg.norm(place[0] - origin))
        offset = rng.uniform(0, spacing)
        own, normal = [], []
        for axis, sign in ((0, 1), (0, -1), (1, 1), (1, -1)):
            along = np.arange(-half[1 - axis] + offset, half[1 - axis], spacing)
            side = np.zeros((len(along), 2))
            side[:, axis], side[:, 1 - axis] = sign * half[axis], along
            own.append(side)
            normal.append(np.tile(sign * np.eye(2)[axis], (len(along), 1)))
        points, outward = np.concatenate(own), np.concatenate(normal)
        low, high = hidden(sweep)
        kept = (points[:, 0] >= low) & (points[:, 0] <= high)
        if not kept.any():
            continue
        points, outward = points[kept], outward[kept]
        # A sweep begins and ends behind the lidar, along -x; columns follow each other to the right.
        world = place + points @ _rotation(yaw[0]).T
        azimuth = np.arctan2(*(world - origin).T[::-1])
        time = stamp - PERIOD * (azimuth + np.pi) / (2 * np.pi)
        places, yaws = way(time)
        turn = np.stack([_rotation(angle) for angle in yaws])
        world = places + np.einsum("nij,nj->ni", turn, points)
        visible = np.einsum("ni,ni->n", np.einsum("nij,nj->ni", turn, outward), origin - world) > 0
        world, time, points = world[visible], time[visible], points[visible]
        if len(world) < 3:
            continue
        world = world + rng.normal(0, 0.015, world.shape)
        mean = time.mean()
        ends = (points[:, 0] < low + 0.25) | (points[:, 0] > high - 0.25)
        outline, later, is_open = outlined(world, time - mean, ends)
        result.append(
            Clusters(
                frame=np.array([sweep], "i4"),
                time=np.array([mean]),
                outline=outline[None],
                later=later[None],
                open=is_open[None],
                sample=sampled(np.column_stack([world, time - mean]))[None],
                floor=np.zeros(1, "f4"),
                top=np.full(1, height, "f4"),
                points=np.array([len(world)], "i4"),
                lidar=origin[None].astype("f4"),
            )
        )
    return Clusters.joined(result)


def _rotation(yaw: float) -> np.ndarray:
    return np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
