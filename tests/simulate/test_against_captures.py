"""Statistics of simulated sweeps beside those of real captures, computed in the same way from ranges and points.

What is compared: the share of returns, the noise of ranges along a beam, the thickness of planes, and how much of the
world is made of planes.
The real sweep is of an OS-1-128 on a car in a street with trees, houses and cars.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from ouster import sdk
from ouster.sdk import core

from rover_pipeline.simulate.faults import Unkind, put_on
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import build
from rover_pipeline.simulate.sensors import lidar

COLUMNS = 1024


class Statistics(NamedTuple):
    """Of one sweep.

    Attributes:
        returns: share of the beams with a return.
        planes: share of the voxels of 0.5 m with at least 20 points whose points are a plane's.
        thickness: median over those planes of the standard deviation across them, m.
        noise: robust standard deviation of ranges of 2 to 8 m against the mean of both neighbours in the beam, m.
    """

    returns: float
    planes: float
    thickness: float
    noise: float


def statistics(metres: np.ndarray, points: np.ndarray) -> Statistics:
    """Of ranges (beam, column), 0 = no return, staggered, and their points (beam, column, 3) in the lidar frame."""
    there = metres > 0
    distance = np.linalg.norm(points, axis=-1)
    cloud = points[there & (distance > 2) & (distance < 30)]
    _, voxel, counts = np.unique(np.floor(cloud / 0.5).astype(int), axis=0, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    cloud = cloud[np.argsort(voxel, kind="stable")]
    spreads = np.array([
        np.linalg.eigvalsh(np.cov(cloud[end - count : end].T))
        for end, count in zip(ends, counts, strict=True) if count >= 20
    ])  # fmt: skip
    is_plane = (spreads[:, 0] < 0.02 * spreads[:, 1]) | ((spreads[:, 0] < 0.02**2) & (spreads[:, 1] > 0.05**2))
    before, after = np.roll(metres, 1, 1), np.roll(metres, -1, 1)
    near = there & (before > 0) & (after > 0) & (metres > 2) & (metres < 8)
    bend = np.abs(metres - (before + after) / 2)[near]
    return Statistics(
        returns=float(there.mean()),
        planes=float(is_plane.mean()),
        thickness=float(np.median(np.sqrt(spreads[is_plane, 0]))),
        noise=float(np.median(bend) / 0.6745 / np.sqrt(1.5)),
    )


def simulated(preset: str, *faults: str) -> Statistics:
    """Of one sweep of a preset in motion, moved to one instant by the true poses, as seen by the sidecar's beams."""
    unkind = put_on(faults, Unkind())
    rig = build(PRESETS[preset].model_copy(update={"unkind": unkind, "columns": COLUMNS}), 0)
    beams, errors, rays = rig.lidars["lidar"]
    echoes = lidar.sweep(rig.world, rig.motion, rays, 6.0, 0.1)
    light = rig.world.light.infrared
    rng = np.random.default_rng(0)
    scan = lidar.measure(echoes, rays, beams.detection_range, light, rng, errors)
    metres, said = scan.rng / 1000, lidar.rays(rig.beams, COLUMNS)
    points = said.origin + (metres - said.range_offset)[..., None] * said.direction
    state = rig.motion.at(lidar.column_times(6.0, 0.1, COLUMNS))
    points = np.einsum("cij,bcj->bci", state.rot, points) + state.pos - state.pos.mean(0)
    return statistics(metres, points)


@pytest.fixture(scope="module")
def street(captures: Path) -> Statistics:
    """Of one sweep of a car in a street; it moved 0.25 m in the meantime, which turns no plane into anything else."""
    source = sdk.open_source(str(captures / "ouster" / "OS-1-128_v2.3.0_1024x10_lb_n3.pcap"))
    frame = next(iter(source))[0]
    assert frame is not None
    ranges = np.asarray(frame.field("RANGE"))
    return statistics(ranges / 1000, core.XYZLut(source.sensor_info[0], True)(ranges))


def test_a_kind_street_has_planes_that_are_thinner_and_ranges_that_are_smoother_than_real_ones(
    street: Statistics,
) -> None:
    kind = simulated("outdoor")
    assert kind.thickness < 0.4 * street.thickness
    assert kind.noise < 0.5 * street.noise
    assert kind.planes > street.planes + 0.1


def test_an_unkind_street_has_planes_as_thick_and_ranges_as_noisy_as_a_real_one(street: Statistics) -> None:
    unkind = simulated("outdoor", "unkind")
    assert unkind.thickness == pytest.approx(street.thickness, rel=0.35)
    assert unkind.noise == pytest.approx(street.noise, rel=0.35)
    assert unkind.returns == pytest.approx(street.returns, abs=0.12)


def test_a_real_street_is_between_an_unkind_street_and_an_unkind_park(street: Statistics) -> None:
    town, park = simulated("outdoor", "unkind"), simulated("park", "unkind")
    assert park.planes < street.planes < town.planes
    assert town.thickness * 0.7 < street.thickness < park.thickness
