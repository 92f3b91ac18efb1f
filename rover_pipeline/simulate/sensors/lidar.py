"""A spinning Ouster lidar: what each beam of each column measures at its own instant.

Axes: beam (top first), column (in the order they are fired, clockwise from above). The sensor frame is that of
ouster-sdk's `XYZLut`, front-left-up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.state import Poses
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.simulate.faults import Unkind
from rover_pipeline.simulate.motion import Motion
from rover_pipeline.simulate.scene.materials import MATERIAL_TABLE, MaterialTable, u4
from rover_pipeline.simulate.scene.raycast import (
    NOTHING,
    RAYS,
    TILE,
    Points,
    cull,
    first_hits,
    in_own_axes,
    look_along,
    pick,
    points_of_a_tile,
    pyramid,
)
from rover_pipeline.simulate.scene.world import Light, Solids, World

# Errors of a real spinning lidar that its data sheet and its returns show: noise, bias, mixed pixels, weak returns.

#: Reflectivity at which the range has no bias, and the reflectivities between which the bias changes. Layout.
_UNBIASED, _DARKEST, _BRIGHTEST = 0.3, 0.01, 3.0
#: Metres within which close surfaces add to the bias. Layout.
_CLOSE = 2.0
#: Above this reflectivity times cosine, a surface is as easy to detect as on the data sheet. Layout.
_STRONG = 0.5
#: Sides of an edge that differ by less than a pulse is long give one return between them; metres. Layout.
_PULSE_M = 1.5


class LidarErrors(NamedTuple):
    """Errors of one lidar: those of its kind, and constant range errors of its beams, f8 (beam, 1), m."""

    unkind: Unkind = Unkind()
    beam_bias: np.ndarray | float = 0.0


def range_bias(distance: np.ndarray, reflectivity: np.ndarray, errors: LidarErrors) -> np.ndarray:
    """What is added to ranges, f4 metres.

    A receiver that triggers on the flank of a pulse triggers late on a weak one ("range walk", as in Boehler, Bordas
    Vicent and Marbs, Investigating laser scanner accuracy, CIPA 2003).
    """
    walk = -np.log10(np.clip(reflectivity, _DARKEST, _BRIGHTEST) / _UNBIASED)
    return (errors.unkind.range_bias * (walk + np.exp(-distance / _CLOSE)) + errors.beam_bias).astype("f4")


def mixed(distance: np.ndarray, hit: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Distances with those at edges pulled towards their neighbours, as a beam that is wider than a column sees them.

    Args:
        distance: f4 (beam, column), metres.
        hit: bool, which of them are there.
        share: of the returns beside an edge that become mixed.
    """
    result = distance.copy()
    for shift in (1, -1):
        beside = np.roll(distance, shift, axis=1)
        step = beside - distance
        edge = hit & np.roll(hit, shift, axis=1) & (np.abs(step) < _PULSE_M)
        # The beam's footprint lies on both sides by any share; that of its own middle is the larger one.
        weight = rng.uniform(0.0, 0.5, distance.shape).astype("f4")
        chosen = edge & (rng.random(distance.shape, "f4") < share)
        result += np.where(chosen, weight * np.where(chosen, step, 0.0), 0.0).astype("f4")
    return result


#: Columns of a few milliseconds, within which bodies move along straight lines and do not rotate. Layout.
_COLUMNS_AT_ONCE = 64


@dataclass(frozen=True)
class Beams:
    """Geometry of a lidar, from its data sheet."""

    product: str  #: its name in the sensor's metadata.
    altitude: np.ndarray  #: degrees per beam.
    azimuth: np.ndarray  #: degrees per beam; one with a positive azimuth points to the right of the encoder.
    beam_offset: float  #: distance from the axis of rotation to the origins of the beams, mm.
    height: float  #: of the lidar's centre above the sensor's base, mm.
    detection_range: float  #: at which half of the beams detect a surface of 10 % reflectivity, metres.

    @property
    def count(self) -> int:
        return len(self.altitude)


def _uniform_beams(
    product: str, count: int, half_angle: float, azimuth: tuple[float, ...], offset: float, detection_range: float
) -> Beams:
    """Beams with uniform spacing in altitude; `azimuth` repeats from beam to beam."""
    altitude = np.round(np.linspace(half_angle, -half_angle, count), 3)
    return Beams(product, altitude, np.resize(np.array(azimuth), count), offset, 36.18, detection_range)


#: Azimuths of the beams of OS0 and of OS1, degrees; geometry of products by name. Layout.
_WIDE, _NARROW = (11.0, 3.67, -3.67, -11.0), (3.164, 1.055, -1.055, -3.164)
BEAMS = {
    "OS-0-128": _uniform_beams("OS-0-128", 128, 45.0, _WIDE, 27.67, 35.0),
    "OS-0-32": _uniform_beams("OS-0-32", 32, 45.0, _WIDE, 27.67, 35.0),
    "OS-1-64": _uniform_beams("OS-1-64", 64, 16.611, _NARROW, 15.806, 90.0),
}


class Rays(NamedTuple):
    """Origins and directions of beams in the sensor frame."""

    origin: np.ndarray  #: f8 (column, 3), metres.
    direction: np.ndarray  #: f8 (beam, column, 3), unit.
    range_offset: float  #: what a stored range is longer than the distance from `origin`, metres.


def rays(beams: Beams, columns: int) -> Rays:
    """The rays of one revolution (Ouster Sensor Documentation, Lidar Range to XYZ)."""
    # The encoder runs clockwise. The half rotation is there because the lidar is mounted backwards on the sensor.
    encoder = 2 * np.pi * (1 - np.arange(columns) / columns) + np.pi
    azimuth = encoder - np.radians(beams.azimuth)[:, None]
    altitude = np.radians(beams.altitude)[:, None]
    x, y = np.cos(altitude) * np.cos(azimuth), np.cos(altitude) * np.sin(azimuth)
    direction = np.stack([x, y, np.broadcast_to(np.sin(altitude), x.shape)], -1)
    offset = beams.beam_offset / 1000
    height = np.full(columns, beams.height / 1000)
    return Rays(np.stack([offset * np.cos(encoder), offset * np.sin(encoder), height], -1), direction, offset)


class Echoes(NamedTuple):
    """What the beams hit, before noise; (beam, column) each, f4 unless another type is named."""

    distance: np.ndarray  #: metres from the origin of the beam, infinite where it hits nothing.
    reflectivity: np.ndarray  #: of the surface times the cosine of incidence, 0 to 1; above 1 for retroreflectors.
    light: np.ndarray  #: ambient light that the surface reflects, as a fraction of full white.
    body: np.ndarray  #: i2, index of the moving body that was hit, -1 for what stands still, and where nothing was hit.

    @staticmethod
    def empty(shape: tuple[int, ...]) -> Echoes:
        """Images that `cast_rays` fills."""
        distance, reflectivity, light = np.empty((3, *shape), "f4")
        return Echoes(distance, reflectivity, light, np.empty(shape, "i2"))


def column_times(end: float, period: float, columns: int) -> np.ndarray:
    """Instants of the columns of a sweep that ends at `end`, f8 (column,) seconds."""
    return end - period + period * np.arange(columns) / columns


def sweep(world: World, motion: Motion, rays: Rays, end: float, period: float) -> Echoes:
    """One revolution that ends at `end`; each column sees the world and has the sensor's pose at its own instant."""
    times = column_times(end, period, len(rays.origin))
    state = motion.at(times)
    echoes = Echoes.empty(rays.direction.shape[:2])
    points = points_of_a_tile(RAYS)
    for left in range(0, len(times), _COLUMNS_AT_ONCE):
        part = slice(left, left + _COLUMNS_AT_ONCE)
        middle = float(times[part].mean())
        some_rays = rays._replace(origin=rays.origin[part], direction=rays.direction[:, part])
        poses = Poses(state.rot[part], state.pos[part])
        images = Echoes(*(image[:, part] for image in echoes))
        cast_rays(world.at(middle), MATERIAL_TABLE, world.light, some_rays, poses, times[part] - middle, points, images)
    return echoes


@compiled
def cast_rays(
    solids: Solids, materials: MaterialTable, light: Light, rays: Rays, poses: Poses, lag: np.ndarray, points: Points,
    echoes: Echoes,
) -> None:  # fmt: skip
    """Cast the rays of some columns, tile by tile.

    Args:
        poses: of the sensor in the scene frame at the columns' instants.
        lag: f8 (column,), seconds from the instant of `solids` to each column's.
        points: memory for those of a tile.
        echoes: takes the results.
    """
    beams, columns = echoes.distance.shape
    everything = np.arange(len(solids.kind))
    candidates, bounds = np.empty(len(solids.kind), np.int64), np.empty(len(solids.kind))
    ahead, ahead_bounds = np.empty(len(solids.kind), np.int64), np.empty(len(solids.kind))
    frame, spread = np.empty((3, 3)), np.empty(4)
    origins, lags = np.empty((TILE, 3)), np.empty(TILE)
    turned, directions = np.empty((3, TILE, beams)), np.empty((3, RAYS))
    distance, index = np.empty(RAYS), np.empty(RAYS, np.int64)
    for left in range(0, columns, TILE):
        width = min(TILE, columns - left)
        for c in range(width):
            r, o = poses.rot[left + c], rays.origin[left + c]
            for k in range(3):
                origins[c, k] = poses.pos[left + c, k] + (r[k, 0] * o[0] + r[k, 1] * o[1] + r[k, 2] * o[2])
            lags[c] = lag[left + c]
        apex = origins[width // 2]
        slack, longest_lag = 0.0, 0.0
        for c in range(width):
            x, y, z = origins[c, 0] - apex[0], origins[c, 1] - apex[1], origins[c, 2] - apex[2]
            slack = max(slack, math.sqrt(x * x + y * y + z * z))
            longest_lag = max(longest_lag, abs(lags[c]))
        if width < TILE:
            turned[:] = np.nan
        # Beams are far apart in memory.
        for b in range(beams):
            for c in range(width):
                n = np.uint64(left + c)
                x, y, z = rays.direction[b, n, 0], rays.direction[b, n, 1], rays.direction[b, n, 2]
                for k in range(3):
                    turned[k, c, b] = poses.rot[n, k, 0] * x + poses.rot[n, k, 1] * y + poses.rot[n, k, 2] * z
        # Most primitives are outside of all these columns.
        pyramid(turned.reshape(3, -1), frame, spread)
        in_columns = cull(solids, everything, apex, slack, frame, spread, longest_lag, ahead, ahead_bounds)
        for top in range(0, beams, TILE):
            height = min(TILE, beams - top)
            directions[:] = np.nan
            for k in range(3):
                for c in range(TILE):
                    for b in range(height):
                        directions[k, np.uint64(c * TILE + b)] = turned[k, c, np.uint64(top + b)]
            pyramid(directions, frame, spread)
            near = cull(solids, in_columns, apex, slack, frame, spread, longest_lag, candidates, bounds)
            first_hits(solids, near, bounds, origins, lags, directions, distance, index)
            _echo(solids, materials, light, origins, lags, directions, distance, index, points, top, left, echoes)


@compiled
def _echo(
    solids: Solids, materials: MaterialTable, light: Light, origins: np.ndarray, lags: np.ndarray, rays: np.ndarray,
    distance: np.ndarray, index: np.ndarray, points: Points, top: int, left: int, echoes: Echoes,
) -> None:  # fmt: skip
    """Find the echoes of a tile, whose columns come one after the other, from the beam `top` and the column `left` on.

    What the rays meet is as `first_hits` finds it; its indices are used up. `points` is memory.
    """
    first, done = int(np.int64(0)), 0  # a plain 0 is a constant to Numba, for which it would compile `pick` once more
    while done < RAYS:
        first, i, count = pick(index, first, points.ray)
        done += count
        if i == NOTHING:
            for n in range(count):
                p = points.ray[n]
                if distance[p] > 0.0:
                    row, column = np.uint64(top + p % u4(TILE)), np.uint64(left + p // u4(TILE))
                    echoes.distance[row, column], echoes.body[row, column] = np.inf, -1
                    echoes.reflectivity[row, column] = echoes.light[row, column] = 0.0
            continue
        own_x, own_y, own_z = points.exact[0], points.exact[1], points.exact[2]
        nx, ny, nz, texture = points.rough[0], points.rough[1], points.rough[2], points.rough[3]
        for n in range(count):
            p = points.ray[n]
            column, t = p // u4(TILE), distance[p]
            x = origins[column, 0] + t * rays[0, p] - lags[column] * solids.velocity[i, 0] - solids.centre[i, 0]
            y = origins[column, 1] + t * rays[1, p] - lags[column] * solids.velocity[i, 1] - solids.centre[i, 1]
            z = origins[column, 2] + t * rays[2, p] - lags[column] * solids.velocity[i, 2] - solids.centre[i, 2]
            own_x[n], own_y[n], own_z[n] = in_own_axes(solids, i, x, y, z)
        m = solids.material[i]
        texture[:count] = materials.contrast[m]
        hx, hy, hz = solids.half[i, 0], solids.half[i, 1], solids.half[i, 2]
        texture_kind, grain = materials.texture[m], materials.grain[m]
        look_along(solids.kind[i], i, solids.depth[i], hx, hy, hz, texture_kind, grain, count, points)
        sx, sy, sz = in_own_axes(solids, i, light.sun[0], light.sun[1], light.sun[2])
        # A retroreflector returns light at any angle of incidence.
        is_retroreflector = materials.reflectivity[m] > 1.0
        for n in range(count):
            p = points.ray[n]
            dx, dy, dz = in_own_axes(solids, i, rays[0, p], rays[1, p], rays[2, p])
            cos_incidence = abs(dx * nx[n] + dy * ny[n] + dz * nz[n])
            sun = max(0.0, sx * nx[n] + sy * ny[n] + sz * nz[n])
            full = materials.reflectivity[m] * texture[n]
            row, column = np.uint64(top + p % u4(TILE)), np.uint64(left + p // u4(TILE))
            echoes.distance[row, column], echoes.body[row, column] = distance[p], solids.body[i]
            echoes.reflectivity[row, column] = full if is_retroreflector else full * cos_incidence
            lit = min(full, 1.0) * (light.ambient + light.strength * sun) + materials.glow[m]
            echoes.light[row, column] = lit


class Scan(NamedTuple):
    """A sweep as the sensor transmits it, staggered; (beam, column) each."""

    rng: np.ndarray  #: u2, mm, 0 = no return.
    rfl: np.ndarray  #: u1, calibrated reflectivity: per cent up to 100, logarithmic above.
    nir: np.ndarray  #: u2, near-infrared photons.


def measure(
    echoes: Echoes,
    rays: Rays,
    detection_range: float,  # as in `Beams`.
    infrared: float,  # as in `Light`.
    rng: np.random.Generator,
    errors: LidarErrors = LidarErrors(),  # noqa: B008  # A constant: those of a good device.
) -> Scan:
    """Echoes with the errors of a real sensor: range noise, missed returns, speckle, shot noise, clipping."""
    unkind, shape = errors.unkind, echoes.distance.shape
    hit = np.isfinite(echoes.distance) & (echoes.distance > 0.25)
    distance = np.where(hit, echoes.distance, np.float32(1.0))
    # Received power falls with the square of the range. The probability of detection is a logistic function of it.
    margin = np.log(np.maximum(echoes.reflectivity, 1e-4) / 0.1) + 2 * np.log(detection_range / distance)
    if unkind.weak_returns:
        margin += unkind.weak_returns * np.log(np.clip(echoes.reflectivity, 1e-4, _STRONG) / _STRONG)
    probability = 0.998 / (1 + np.exp(-4 * margin))
    detected = hit & (rng.random(shape, "f4") < probability)
    sigma = (unkind.range_noise or 0.003) + (unkind.range_noise_growth or 0.00012) * distance
    if unkind.range_noise:  # twice as much where a return is just detected
        sigma *= 1 + np.exp(-np.clip(margin, -1.0, 20.0))
    metres = distance + rays.range_offset + sigma * rng.standard_normal(shape, "f4")
    if unkind.mixed_pixels or unkind.range_bias:
        others = np.random.default_rng(rng.integers(1 << 62))
        metres += mixed(distance, hit, unkind.mixed_pixels, others) - distance
        metres += range_bias(distance, echoes.reflectivity, errors)
    mm = np.where(detected, np.clip(np.rint(metres * 1000), 1, CLIPPED), 0)
    percent = 100 * echoes.reflectivity * (1 + 0.03 * rng.standard_normal(shape, "f4"))
    logarithmic = 100 + 40 * np.log2(np.maximum(percent, 100) / 100)
    level = np.where(detected, np.clip(np.rint(np.where(percent > 100, logarithmic, percent)), 0, 255), 0)
    photons = infrared * echoes.light + 6
    photons = photons + np.sqrt(photons) * rng.standard_normal(shape, "f4")
    return Scan(mm.astype("u2"), level.astype("u1"), np.clip(np.rint(photons), 0, 65535).astype("u2"))


# The metadata that a sensor gives about itself (`lidar.json`), in the form of firmware 2.3 and later.

#: Position of the IMU in the sensor frame, mm. Physics: Ouster Sensor Documentation, imu_to_sensor_transform.
_IMU_MM = (6.253, -11.775, 7.645)


def metadata(beams: Beams, columns: int, rate: int) -> dict[str, object]:
    """The sensor's own description of its geometry, `rate` in Hz (Ouster Sensor Documentation, /sensor/metadata)."""
    offset, profiles = beams.beam_offset, {"udp_profile_imu": "LEGACY", "udp_profile_lidar": "RNG19_RFL8_SIG16_NIR16"}
    return {
        "beam_intrinsics": {
            "beam_altitude_angles": beams.altitude.tolist(),
            "beam_azimuth_angles": beams.azimuth.tolist(),
            "beam_to_lidar_transform": _transform(1.0, (offset, 0.0, 0.0)),
            "lidar_origin_to_beam_origin_mm": offset,
        },
        "calibration_status": {"reflectivity": {"timestamp": "2023-01-01T00:00:00", "valid": True}},
        "config_params": {
            "azimuth_window": [0, 360000],
            "lidar_mode": f"{columns}x{rate}",
            "operating_mode": "NORMAL",
            "timestamp_mode": "TIME_FROM_INTERNAL_OSC",
            "udp_port_imu": 7503,
            "udp_port_lidar": 7502,
            **profiles,
        },
        "imu_intrinsics": {"imu_to_sensor_transform": _transform(1.0, _IMU_MM)},
        "lidar_data_format": {
            "column_window": [0, columns - 1],
            "columns_per_frame": columns,
            "columns_per_packet": 16,
            "fps": rate,
            "pixel_shift_by_row": np.round((beams.azimuth - beams.azimuth.min()) * columns / 360).astype("i8").tolist(),
            "pixels_per_column": beams.count,
            **profiles,
        },
        "lidar_intrinsics": {"lidar_to_sensor_transform": _transform(-1.0, (0.0, 0.0, beams.height))},
        "sensor_info": {
            "build_date": "2022-09-21T17:47:45Z",
            "build_rev": "v2.4.0",
            "image_rev": "ousteros-image-prod-aries-v2.4.0",
            "initialization_id": 1,
            "prod_line": beams.product,
            "prod_pn": "840-103575-06",
            "prod_sn": "122201000001",
            "status": "RUNNING",
        },
        "user_data": "",
    }


def _transform(sign: float, translation_mm: tuple[float, float, float]) -> list[float]:
    """A 4x4 matrix in row-major order; `sign` -1 rotates by half a revolution about z, 1 does not rotate."""
    matrix = np.diag([sign, sign, 1.0, 1.0])
    matrix[:3, 3] = translation_mm
    return [float(element) for element in matrix.ravel()]
