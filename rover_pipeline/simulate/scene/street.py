"""A street round a block of houses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rover_pipeline.simulate.motion import rounded_rectangle
from rover_pipeline.simulate.scene.props import ROAD_DEPTH, car, cyclist, house, lamp_post, person, target_plates, tree
from rover_pipeline.simulate.scene.world import Body, Part, World, box, cylinder, daylight, rectangle, standing_box

#: The rig's paths: on foot round the inner pavement, on a bike along the outer edge of the road, and in a car on its
#: outer lane, at the speed of car 1, which stays ahead. Layout.
PAVEMENT_PATH = rounded_rectangle(26.8, 16.8, 3.0)
CYCLE_PATH = rounded_rectangle(35.2, 25.2, 6.0)
LANE_PATH = rounded_rectangle(33.4, 23.4, 6.0)


def world() -> World:
    """Houses round a block, pavements, trees, parked cars; moving cars, a cyclist and people."""
    parts = [*_ground(), *_houses(), *_street_furniture(), *_parked_cars()]
    bodies = (
        Body("car 1", car("car blue"), LANE_PATH, 7.0, start=18.0),
        Body("car 2", car("car white"), rounded_rectangle(30.2, 20.2, 5.0, -1), 8.0, start=60.0),
        Body("car 3", car("car red"), rounded_rectangle(30.2, 20.2, 5.0, -1), 8.0, start=140.0),
        cyclist("cyclist", rounded_rectangle(34.6, 24.6, 6.0), 4.5, start=60.0),
        person("walker 1", rounded_rectangle(27.5, 17.5, 3.0, -1), 1.3, coat="red cloth", start=12.0),
        person("walker 2", rounded_rectangle(39.4, 29.5, 6.0), 1.4, coat="coat", start=22.0),
        person("walker 3", PAVEMENT_PATH, 1.2, coat="cloth", start=11.0),
    )
    targets, plates = target_plates(0.2, [
        ((24.98, 3.0, 2.0), "+x"), ((10.0, 14.98, 2.0), "+y"), ((-24.98, -4.0, 2.0), "-x"),
        ((-8.0, -14.98, 2.0), "-y"), ((39.98, 8.0, 2.4), "-x"), ((12.0, 29.98, 2.4), "-y"),
    ])  # fmt: skip
    return World(parts + plates, daylight(0.35, 0.45), bodies, targets)


def _ground() -> list[Part]:
    """The road, 0.1 m below the pavements, and its markings."""
    parts = [box((0.0, 0.0, -0.6), (240.0, 200.0, 1.0), "asphalt"), box((0.0, 0.0, -0.05), (56.4, 36.4, 0.1), "paving")]
    for side in (-1, 1):
        parts.append(box((side * 45.2, 0.0, -0.05), (18.0, 74.8, 0.1), "paving"))
        parts.append(box((0.0, side * 32.2, -0.05), (72.4, 10.0, 0.1), "paving"))
        for x in np.arange(-27.0, 28.0, 6.0):
            parts.append(rectangle((x, side * 22.2, -0.095), 2.4, 0.14, "up", "paint"))
        for y in np.arange(-17.0, 18.0, 6.0):
            parts.append(rectangle((side * 32.2, y, -0.095), 0.14, 2.4, "up", "paint"))
    return parts


def _houses() -> list[Part]:
    walls = ["brick", "render", "stone", "green plaster", "plaster"]
    parts = [
        *house(16.5, 9.0, 17.0, 12.0, 9.0, "brick", "+y"),
        *house(-12.0, 9.5, 20.0, 11.0, 6.5, "render", "+y"),
        *house(19.5, -7.0, 11.0, 16.0, 7.5, "stone", "+x"),
        *house(-6.0, -10.0, 22.0, 10.0, 9.5, "brick", "-y"),
        *house(-21.0, -4.0, 8.0, 14.0, 6.0, "plaster", "-x"),
    ]
    number = 0
    for side in (-1, 1):
        for x in (-27.0, -9.0, 10.0, 28.0):
            depth = 9.0 + number % 3
            wall, height = walls[number % 5], 6.5 + 1.6 * (number % 3)
            parts += house(x, side * (30.0 + depth / 2), 16.5, depth, height, wall, "-y" if side > 0 else "+y")
            number += 1
        for y in (-18.0, 0.0, 19.0):
            depth = 8.0 + number % 4
            wall, height = walls[number % 5], 6.0 + 1.4 * (number % 4)
            parts += house(side * (40.0 + depth / 2), y, depth, 16.0, height, wall, "-x" if side > 0 else "+x")
            number += 1
    return parts


def _street_furniture() -> list[Part]:
    parts: list[Part] = []
    for side in (-1, 1):
        for x in (-20.0, -7.0, 6.0, 19.0):
            parts += tree(x, side * 28.6, 5.5 + (x % 3))
            parts += lamp_post(x + 5.0, side * 18.9 - side * 0.9)
        for y in (-12.0, 1.0, 13.0):
            parts += tree(side * 38.6, y, 5.0 + (y % 2))
        parts += lamp_post(side * 28.0, 8.0)
        parts += [cylinder(side * 27.9, -6.0, -0.1, 2.3, 0.03, "metal")]
        parts += [box((side * 27.9, -6.0, 2.3), (0.03, 0.6, 0.6), "sign", 8.0)]
    parts += [
        standing_box(25.5, -13.5, (0.6, 1.6, 0.5), "wood"),
        box((25.25, -13.5, 0.7), (0.08, 1.6, 0.5), "wood"),
        standing_box(4.0, 15.45, (2.4, 0.7, 0.9), "leaf"),
        standing_box(-3.0, 15.45, (1.0, 0.6, 1.1), "car blue"),
        standing_box(-26.6, 12.0, (0.6, 2.5, 1.1), "leaf"),
        cylinder(27.8, 4.0, -0.05, 0.9, 0.14, "car red"),
        cylinder(25.4, 10.0, -0.05, 0.95, 0.25, "metal"),
        cylinder(-25.6, -13.0, -0.05, 0.95, 0.25, "metal"),
    ]
    return parts


def _parked_cars() -> list[Part]:
    """Cars with all wheels on the pavement."""
    paints = ["car white", "car red", "car blue", "metal"]
    spots = [(-16.0, 28.2), (-11.0, 28.2), (9.0, 28.2), (13.5, 28.2), (-15.0, -28.2), (-2.0, -28.2), (11.0, -28.2)]
    parts = []
    for number, (x, y) in enumerate(spots):
        for part in car(paints[number % 4]):
            cx, cy, cz = part.centre
            parts.append(replace(part, centre=(x + cx, y + cy, cz + ROAD_DEPTH)))
    return parts
