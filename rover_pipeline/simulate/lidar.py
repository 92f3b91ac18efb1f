"""A spinning Ouster lidar: what each beam of each column sees at its own instant.

Axis words: beam (top first), column (in the order they are fired, clockwise from above). Sensor frame as
ouster-sdk's `XYZLut` gives it, front-left-up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rover_pipeline.simulate.materials import LOOK
from rover_pipeline.simulate.motion import Motion
from rover_pipeline.simulate.raycast import trace
from rover_pipeline.simulate.world import World

#: Columns between which bodies move in a straight line and do not turn: a few milliseconds.
_AT_ONCE = 64
#: A range on the wire is u2 millimetres; the recorder clips what is farther.
CLIP_MM = 65535


@dataclass(frozen=True)
class Beams:
    """Geometry of a lidar, from its data sheet.

    Attributes:
        product: its name in the sensor's metadata.
        altitude, azimuth: degrees per beam; a positive azimuth looks to the right of the encoder.
        beam_offset: from the axis of rotation to where the beams start, mm.
        height: of the lidar's centre above the sensor's base, mm.
        reach: where a surface of 10 % reflectivity is found half of the time, metres.
    """

    product: str
    altitude: np.ndarray
    azimuth: np.ndarray
    beam_offset: float
    height: float
    reach: float

    @property
    def count(self) -> int:
        return len(self.altitude)

    def shifts(self, columns: int) -> np.ndarray:
        """Columns by which each beam's image is to be rolled to line up, i8 (beam,)."""
        return np.round((self.azimuth - self.azimuth.min()) * columns / 360).astype("i8")


def _fan(product: str, count: int, half_angle: float, stagger: tuple[float, ...], offset: float, reach: float) -> Beams:
    altitude = np.round(np.linspace(half_angle, -half_angle, count), 3)
    return Beams(product, altitude, np.resize(np.array(stagger), count), offset, 36.18, reach)


_WIDE, _NARROW = (11.0, 3.67, -3.67, -11.0), (3.164, 1.055, -1.055, -3.164)
BEAMS = {
    "OS-0-128": _fan("OS-0-128", 128, 45.0, _WIDE, 27.67, 35.0),
    "OS-0-32": _fan("OS-0-32", 32, 45.0, _WIDE, 27.67, 35.0),
    "OS-1-64": _fan("OS-1-64", 64, 16.611, _NARROW, 15.806, 90.0),
}


class Rays(NamedTuple):
    """Where beams start and point in the sensor frame.

    Attributes:
        origin: f8 (column, 3), metres.
        direction: f8 (beam, column, 3), unit.
        ahead: by how much a stored range is longer than the way from `origin`, metres.
    """

    origin: np.ndarray
    direction: np.ndarray
    ahead: float


def rays(beams: Beams, columns: int) -> Rays:
    """The rays of one revolution (Ouster Sensor Documentation, Lidar Range to XYZ)."""
    # The encoder runs clockwise, and the lidar is mounted backwards on the sensor: the half turn.
    encoder = 2 * np.pi * (1 - np.arange(columns) / columns) + np.pi
    azimuth = encoder - np.radians(beams.azimuth)[:, None]
    altitude = np.radians(beams.altitude)[:, None]
    direction = np.stack(
        [
            np.cos(altitude) * np.cos(azimuth),
            np.cos(altitude) * np.sin(azimuth),
            np.broadcast_to(np.sin(altitude), azimuth.shape),
        ],
        -1,
    )
    arm = beams.beam_offset / 1000
    height = np.full(columns, beams.height / 1000)
    return Rays(np.stack([arm * np.cos(encoder), arm * np.sin(encoder), height], -1), direction, arm)


class Echoes(NamedTuple):
    """What the beams met, before noise; f4 (beam, column) each.

    Attributes:
        distance: metres from the start of the beam, infinite where nothing is.
        reflectivity: of the surface and its angle, 0 to 1, above 1 for retroreflectors.
        light: ambient light that the surface sends back, share of full white.
    """

    distance: np.ndarray
    reflectivity: np.ndarray
    light: np.ndarray


def column_times(end: float, period: float, columns: int) -> np.ndarray:
    """Instants of the columns of a sweep that ends at `end`, f8 (column,) seconds."""
    return end - period + period * np.arange(columns) / columns


def sweep(world: World, motion: Motion, rays: Rays, end: float, period: float) -> Echoes:
    """One revolution that ends at `end`, every column from where the sensor and the bodies are at its instant."""
    columns = len(rays.origin)
    times = column_times(end, period, columns)
    state = motion.at(times)
    shape = rays.direction.shape[:2]
    echoes = Echoes(np.empty(shape, "f4"), np.empty(shape, "f4"), np.empty(shape, "f4"))
    light = world.light
    for left in range(0, columns, _AT_ONCE):
        part = slice(left, left + _AT_ONCE)
        middle = float(times[part].mean())
        trace(
            world.at(middle),
            LOOK,
            rays.origin[part],
            rays.direction[:, part],
            state.pos[part],
            state.rot[part],
            times[part] - middle,
            light.sun,
            light.strength,
            light.ambient,
            *(image[:, part] for image in echoes),
        )
    return echoes


class Scan(NamedTuple):
    """A sweep as the sensor sends it, staggered; (beam, column) each.

    Attributes:
        rng: u2, mm, 0 = no return.
        rfl: u1, calibrated reflectivity: per cent up to 100, logarithmic above.
        nir: u2, near-infrared photons.
    """

    rng: np.ndarray
    rfl: np.ndarray
    nir: np.ndarray


def measure(echoes: Echoes, rays: Rays, reach: float, infrared: float, rng: np.random.Generator) -> Scan:
    """Adds what a real sensor adds: range noise, missed returns, speckle, shot noise, clipping.

    Args:
        reach: where a surface of 10 % is found half of the time, metres.
        infrared: photons from a white surface in full ambient light.
    """
    shape = echoes.distance.shape
    hit = np.isfinite(echoes.distance) & (echoes.distance > 0.25)
    far = np.where(hit, echoes.distance, np.float32(1.0))
    # Returned power falls with the square of the range; the detector's threshold is soft.
    margin = np.log(np.maximum(echoes.reflectivity, 1e-4) / 0.1) + 2 * np.log(reach / far)
    chance = 0.998 / (1 + np.exp(-4 * margin))
    seen = hit & (rng.random(shape, "f4") < chance)
    spread = 0.003 + 0.00012 * far
    metres = far + rays.ahead + spread * rng.standard_normal(shape, "f4")
    mm = np.where(seen, np.clip(np.rint(metres * 1000), 1, CLIP_MM), 0)
    percent = 100 * echoes.reflectivity * (1 + 0.03 * rng.standard_normal(shape, "f4"))
    bright = 100 + 40 * np.log2(np.maximum(percent, 100) / 100)
    level = np.where(seen, np.clip(np.rint(np.where(percent > 100, bright, percent)), 0, 255), 0)
    photons = infrared * echoes.light + 6
    photons = photons + np.sqrt(photons) * rng.standard_normal(shape, "f4")
    return Scan(mm.astype("u2"), level.astype("u1"), np.clip(np.rint(photons), 0, 65535).astype("u2"))
