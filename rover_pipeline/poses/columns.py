"""Where the lidar was while it swept: its poses at the columns of one sweep, between the states of a trajectory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.poses.trajectory import Trajectory

#: Parts of a sweep, some two milliseconds, in which the lidar moves along a straight line. That turns a rig by a few
#: milliradians at most: a straight line between matrices is off by 1e-6. Splines at every column would be slow.
PARTS = 64


class State(NamedTuple):
    """The lidar at the time stamp of a sweep.

    Attributes:
        pos, vel, acc: f8 (3,), m, m/s, m/s2, in the world.
        rot: f8 (3, 3), world-from-lidar.
        avel: f8 (3,), rad/s, in the lidar frame.
    """

    pos: np.ndarray
    rot: np.ndarray
    vel: np.ndarray
    acc: np.ndarray
    avel: np.ndarray


class Poses(NamedTuple):
    """Poses of the lidar at N instants.

    Attributes:
        rot: (N, 3, 3), world-from-lidar.
        pos: (N, 3), m, in the world.
    """

    rot: np.ndarray
    pos: np.ndarray


def node_poses(trajectory: Trajectory, stamp: float, state: State, nodes: np.ndarray) -> Poses:
    """Poses `nodes`, f8 (N,) s, after the time stamp of a sweep, f8.

    Where the trajectory does not say, before its first state, after its last and in gaps, the lidar is taken to go on
    turning and speeding up evenly from the state at the stamp: half a centimetre off at most for a walker.
    """
    found = trajectory.at(stamp + nodes)
    since = nodes[~found.valid, None]
    if len(since):
        found.pos[~found.valid] = state.pos + state.vel * since + state.acc * since**2 / 2
        found.rot[~found.valid] = state.rot @ Rotation.from_rotvec(since * state.avel).as_matrix()
    return Poses(found.rot, found.pos)


def between_nodes(poses: Poses, nodes: np.ndarray, instants: np.ndarray) -> Poses:
    """Poses at other instants, f8 (M,), on straight lines between those at evenly spaced nodes, f8 (N,)."""
    left = np.clip(np.searchsorted(nodes, instants, side="right") - 1, 0, len(nodes) - 2)
    share = ((instants - nodes[left]) / (nodes[1] - nodes[0]))[:, None]
    pos = (1 - share) * poses.pos[left] + share * poses.pos[left + 1]
    rot = (1 - share[..., None]) * poses.rot[left] + share[..., None] * poses.rot[left + 1]
    return Poses(rot, pos)
