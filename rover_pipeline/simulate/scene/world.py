"""The world: solids, foliage and terrain that stand still, and moving bodies that are made of solids.

The scene frame has z up and the ground or floor at z = 0; metres and seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.linear import matmul
from rover_pipeline.simulate.motion import ClosedPath, Jet, Pace
from rover_pipeline.simulate.scene.materials import INDEX

#: Kinds of primitives. Layout.
BOX, CYLINDER, RECTANGLE, FOLIAGE, TERRAIN = range(5)


class Solids(NamedTuple):
    """All primitives at one instant, as arrays for compiled kernels."""

    #: i8 (P,), BOX, CYLINDER (about its own z), RECTANGLE (in its own x and y), FOLIAGE (an ellipsoid full of leaves)
    #: or TERRAIN (both in module `terrain`).
    kind: np.ndarray
    centre: np.ndarray  #: f8 (P, 3).
    axes: np.ndarray  #: f8 (P, 3, 3), rows are the primitive's own x, y, z.
    #: f8 (P, 3), half extents along its own axes; a cylinder's radius comes first, a terrain's undulation last.
    half: np.ndarray
    velocity: np.ndarray  #: f8 (P, 3), m/s; kernels move bodies along straight lines around the instant.
    material: np.ndarray  #: i8 (P,), index into the materials.
    body: np.ndarray  #: i8 (P,), index of its body, -1 for what stands still.
    #: f8 (P,), how far a ray gets into foliage on average, or the height of a terrain's grass, metres.
    depth: np.ndarray


@dataclass(frozen=True)
class Part:
    """One primitive in the frame of the scene or of its body."""

    kind: int  #: as in `Solids`, as are `half` and `depth`.
    centre: tuple[float, float, float]
    half: tuple[float, float, float]
    material: str
    axes: np.ndarray  #: f8 (3, 3), rows are its own axes.
    depth: float = 0.0


def box(centre: tuple[float, float, float], size: tuple[float, float, float], material: str, yaw: float = 0.0) -> Part:
    """A box of full extents `size`, rotated to the left by `yaw` degrees."""
    cos, sin = np.cos(np.radians(yaw)), np.sin(np.radians(yaw))
    axes = np.array([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]])
    return Part(BOX, centre, (size[0] / 2, size[1] / 2, size[2] / 2), material, axes)


def standing_box(x: float, y: float, size: tuple[float, float, float], material: str, yaw: float = 0.0) -> Part:
    """A box that stands on the ground."""
    return box((x, y, size[2] / 2), size, material, yaw)


def cylinder(x: float, y: float, bottom: float, top: float, radius: float, material: str) -> Part:
    """An upright cylinder."""
    return Part(CYLINDER, (x, y, (top + bottom) / 2), (radius, radius, (top - bottom) / 2), material, np.eye(3))


def foliage(centre: tuple[float, float, float], half: tuple[float, float, float], depth: float) -> Part:
    """An ellipsoid full of leaves; a ray gets `depth` metres into it on average."""
    return Part(FOLIAGE, centre, half, "leaf", np.eye(3), depth)


#: Axes of a rectangle that faces the named direction: rows are its own x, y and outward z. Layout.
FACING = {
    "+x": np.array([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]]),
    "-x": np.array([[0.0, -1, 0], [0, 0, 1], [-1, 0, 0]]),
    "+y": np.array([[-1.0, 0, 0], [0, 0, 1], [0, 1, 0]]),
    "-y": np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]),
    "up": np.eye(3),
    "down": np.array([[1.0, 0, 0], [0, -1, 0], [0, 0, -1]]),
}


def rectangle(centre: tuple[float, float, float], width: float, height: float, facing: str, material: str) -> Part:
    return Part(RECTANGLE, centre, (width / 2, height / 2, 0.0), material, FACING[facing])


@dataclass(frozen=True)
class Body:
    """Something that follows a closed path at constant speed and faces its direction of travel."""

    name: str
    parts: tuple[Part, ...]  #: primitives in the body's frame: x ahead, y left, z up, origin on the ground.
    path: ClosedPath  #: over a ground at z = 0, or with the height of the ground.
    speed: float  #: m/s.
    start: float = 0.0  #: arc length at time 0, metres.
    pace: Pace | None = None  #: in which it starts and walks, instead of at constant `speed`.

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """The middle and the full extents of the box around the body, along its own axes, f8 (3,) each, m."""
        corners = []
        for part in self.parts:
            half = np.array(part.half)
            if part.kind == CYLINDER:
                # A disc reaches as far along an axis as its radius times the sine of the angle between them.
                reach = half[0] * np.sqrt(np.maximum(1 - part.axes[2] ** 2, 0)) + half[2] * np.abs(part.axes[2])
            else:
                reach = matmul(half, np.abs(part.axes))
            corners += [part.centre - reach, part.centre + reach]
        low, high = np.min(corners, axis=0), np.max(corners, axis=0)
        return (low + high) / 2, high - low

    def at(self, time: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Position (3,), rotation (3, 3) scene-from-body and velocity (3,) in the scene frame."""
        if self.pace is None:
            arc_length, speed = np.array([self.start + self.speed * time]), self.speed
        else:
            covered: Jet = self.pace.arc_length(np.array([time]))
            arc_length, speed = self.start + covered.value, float(covered.rate[0])
        x, y, *z = self.path.derivative(0, arc_length)[0]
        dx, dy, *dz = self.path.derivative(1, arc_length)[0]
        cos, sin = dx / np.hypot(dx, dy), dy / np.hypot(dx, dy)
        rotation = np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])
        return np.array([x, y, *(z or [0.0])]), rotation, speed * np.array([dx, dy, *(dz or [0.0])])


@dataclass(frozen=True)
class Target:
    """A marked point: the centre of a bright plate that is easy to find in a picture."""

    name: str
    centre: tuple[float, float, float]


class Light(NamedTuple):
    """The lighting of the world; compiled kernels take it as it is."""

    sun: np.ndarray  #: unit vector to the sun, (3,).
    strength: float  #: of the sunlight, as a fraction of full white; 0 indoors.
    lamps: np.ndarray  #: f8 (L, 3), positions of lamps.
    ambient: float  #: light from all directions, as a fraction of full white.
    sky: tuple[float, float, float]  #: linear RGB of the background.
    infrared: float  #: near-infrared photons that a lidar counts from a white surface in full ambient light.


def daylight(sun_x: float, sun_y: float) -> Light:
    """A clear day, with the sun above (sun_x, sun_y, 0.82) of the origin."""
    sun = np.array([sun_x, sun_y, 0.82])
    return Light(sun / np.linalg.norm(sun, axis=0), 0.85, np.zeros((0, 3)), 0.35, (0.42, 0.60, 0.85), 1500.0)


def lamplight(lamps: np.ndarray, ambient: float, infrared: float = 60.0) -> Light:
    """Light indoors. Arguments as in `Light`."""
    return Light(np.array([0.0, 0.0, 1.0]), 0.0, lamps, ambient, (0.02, 0.02, 0.02), infrared)


class World:
    """All primitives, `parts`, those of bodies last, and bodies at any time. `owner`: index of the body of each
    primitive, i8 (P,), -1 for what stands still."""

    def __init__(
        self, still: list[Part], light: Light, bodies: tuple[Body, ...] = (), targets: tuple[Target, ...] = ()
    ) -> None:
        self.light = light
        self.bodies = bodies
        self.targets = targets
        self.parts = [*still, *(part for body in bodies for part in body.parts)]
        owners = [number for number, body in enumerate(bodies) for _ in body.parts]
        self.owner = np.array([-1] * len(still) + owners, "i8")
        kind = np.array([part.kind for part in self.parts], "i8")
        # The parts of bodies are in the frames of their bodies here.
        self._solids = Solids(
            kind=kind,
            centre=np.array([part.centre for part in self.parts], "f8").reshape(-1, 3),
            axes=np.array([part.axes for part in self.parts], "f8").reshape(-1, 3, 3),
            half=np.array([part.half for part in self.parts], "f8").reshape(-1, 3),
            velocity=np.zeros((len(kind), 3)),
            material=np.array([INDEX[part.material] for part in self.parts], "i8"),
            body=self.owner,
            depth=np.array([part.depth for part in self.parts], "f8"),
        )

    def at(self, time: float) -> Solids:
        """The primitives at an instant, seconds since the start."""
        solids = self._solids
        centre, axes, velocity = solids.centre.copy(), solids.axes.copy(), solids.velocity.copy()
        for number, body in enumerate(self.bodies):
            position, rotation, body_velocity = body.at(time)
            own = self.owner == number
            centre[own] = position + matmul(solids.centre[own], rotation.T)
            axes[own] = matmul(solids.axes[own], rotation.T)
            velocity[own] = body_velocity
        return solids._replace(centre=centre, axes=axes, velocity=velocity)

    def body_states(self, time: float) -> np.ndarray:
        """Position and velocity of every body in the scene frame, f8 (B, 6)."""
        states = [body.at(time) for body in self.bodies]
        return np.array([np.concatenate([position, velocity]) for position, _, velocity in states]).reshape(-1, 6)
