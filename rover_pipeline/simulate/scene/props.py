"""Props: furniture, houses, trees and street furniture that stand still, and people, cars and cyclists that move."""

from __future__ import annotations

import numpy as np

from rover_pipeline.simulate.motion import ClosedPath
from rover_pipeline.simulate.scene.world import (
    CYLINDER,
    FACING,
    Body,
    Part,
    Target,
    box,
    cylinder,
    rectangle,
    standing_box,
)

#: Depth of a road below the pavement, where z is 0; metres. Layout.
ROAD_DEPTH = 0.1


def table(x: float, y: float, width: float, depth: float, material: str = "wood") -> list[Part]:
    top = box((x, y, 0.735), (width, depth, 0.03), material)
    leg_x, leg_y = width / 2 - 0.05, depth / 2 - 0.05
    return [top, *(
        standing_box(x + sx * leg_x, y + sy * leg_y, (0.06, 0.06, 0.72), material) for sx in (-1, 1) for sy in (-1, 1)
    )]  # fmt: skip


def chair(x: float, y: float, yaw: float) -> list[Part]:
    angle = np.radians(yaw)
    return [
        box((x, y, 0.45), (0.42, 0.42, 0.05), "white wood", yaw),
        box((x - 0.2 * np.cos(angle), y - 0.2 * np.sin(angle), 0.72), (0.04, 0.42, 0.5), "white wood", yaw),
        cylinder(x, y, 0.0, 0.43, 0.03, "metal"),
        cylinder(x, y, 0.0, 0.03, 0.22, "metal"),
    ]


def shelf(x: float, y: float, width: float, yaw: float) -> list[Part]:
    """A bookcase with its back to the wall; `yaw` 0 has its long side along x."""
    size = (width, 0.32) if yaw == 0 else (0.32, width)
    boards = [box((x, y, level), (*size, 0.03), "wood") for level in (0.05, 0.45, 0.85, 1.25, 1.65)]
    inner = (size[0] - 0.1, size[1] - 0.08)
    books = [box((x, y, level + 0.14), (*inner, 0.26), "books") for level in (0.05, 0.45, 0.85, 1.25)]
    return [*boards, *books]


def house(x: float, y: float, width: float, depth: float, height: float, wall: str, facing: str) -> list[Part]:
    """A house on the ground with windows and a door on the side that faces the street."""
    parts = [box((x, y, height / 2 - 0.1), (width, depth, height + 0.2), wall)]
    along_y = facing[1] == "x"
    sign = 1 if facing[0] == "+" else -1
    length = depth if along_y else width
    face = (x + sign * (width / 2 + 0.012)) if along_y else (y + sign * (depth / 2 + 0.012))
    for number, offset in enumerate(np.arange(-length / 2 + 1.8, length / 2 - 1.0, 3.6)):
        for level in np.arange(1.7, height - 1.0, 3.2):
            centre = (face, y + offset, level) if along_y else (x + offset, face, level)
            parts.append(rectangle(centre, 1.3, 1.5, facing, "glass"))
        if number % 3 == 1:
            centre = (face, y + offset + 1.8, 1.1) if along_y else (x + offset + 1.8, face, 1.1)
            parts.append(rectangle(centre, 1.1, 2.2, facing, "wood"))
    return parts


def tree(x: float, y: float, height: float) -> list[Part]:
    return [
        cylinder(x, y, -0.1, height * 0.5, 0.16, "bark"),
        cylinder(x, y, height * 0.42, height * 0.78, height * 0.24, "leaf"),
        cylinder(x, y, height * 0.78, height, height * 0.15, "leaf"),
    ]


def lamp_post(x: float, y: float) -> list[Part]:
    return [cylinder(x, y, -0.1, 5.2, 0.07, "metal"), cylinder(x, y, 5.2, 5.5, 0.22, "paint")]


def car(paint: str) -> tuple[Part, ...]:
    """A car that faces +x and stands on the road."""
    return (
        box((0.0, 0.0, 0.48), (4.2, 1.75, 0.62), paint),
        box((-0.25, 0.0, 1.05), (2.2, 1.55, 0.55), "glass"),
        box((-0.25, 0.0, 1.345), (2.0, 1.5, 0.04), paint),
        box((2.11, 0.0, 0.35), (0.02, 0.52, 0.12), "paint"),
        *(_wheel(x, y, 0.32, 0.2, "black plastic") for x in (1.3, -1.3) for y in (0.8, -0.8)),
    )


def person(name: str, path: ClosedPath, speed: float, *, coat: str, start: float = 0.0) -> Body:
    parts = (
        cylinder(0.12, 0.1, 0.0, 0.85, 0.085, "jeans"),
        cylinder(-0.12, -0.1, 0.0, 0.85, 0.085, "jeans"),
        box((0.0, 0.0, 1.14), (0.26, 0.44, 0.6), coat),
        cylinder(0.08, 0.28, 0.75, 1.4, 0.05, coat),
        cylinder(-0.08, -0.28, 0.75, 1.4, 0.05, coat),
        cylinder(0.0, 0.0, 1.44, 1.72, 0.1, "skin"),
    )
    return Body(name, parts, path, speed, start)


def cyclist(name: str, path: ClosedPath, speed: float, *, start: float) -> Body:
    parts = (
        *(_wheel(x, 0.0, 0.34, 0.04, "metal") for x in (0.52, -0.52)),
        box((0.0, 0.0, 0.6), (0.9, 0.05, 0.06), "metal"),
        cylinder(-0.1, 0.1, 0.25, 0.95, 0.08, "jeans"),
        cylinder(0.1, -0.1, 0.25, 0.95, 0.08, "jeans"),
        box((0.05, 0.0, 1.2), (0.4, 0.4, 0.55), "coat"),
        cylinder(0.18, 0.0, 1.46, 1.74, 0.11, "skin"),
    )
    return Body(name, parts, path, speed, start)


def _wheel(x: float, y: float, radius: float, width: float, material: str) -> Part:
    """A wheel that stands on the road and rolls along x."""
    return Part(CYLINDER, (x, y, radius - ROAD_DEPTH), (radius, radius, width / 2), material, FACING["+y"])


def target_plates(
    size: float, plates: list[tuple[tuple[float, float, float], str]]
) -> tuple[tuple[Target, ...], list[Part]]:
    """Targets and their bright square plates of `size` metres, from the centres and facing directions of the plates."""
    targets = tuple(Target(f"target {number}", centre) for number, (centre, _) in enumerate(plates, 1))
    return targets, [rectangle(centre, size, size, facing, "target") for centre, facing in plates]
