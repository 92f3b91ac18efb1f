"""What pictures show where outlines fall: the loop in which an estimate of a camera's mount spends its time."""

from __future__ import annotations

from functools import cache

import numpy as np

from rover_pipeline.camera.lens import Lens
from rover_pipeline.numerics.compiled import compiled, inlined


@cache
def numbers_of(lens: Lens) -> np.ndarray:
    """A lens as kernels read it, f8 (12,): fx, fy, cx, cy, p1, p2, k1 to k4, maximum tangent, whether it is a fisheye
    (see `Lens.pixels`)."""
    return np.array([lens.fx, lens.fy, lens.cx, lens.cy, *lens.p, *lens.k, lens.max_tangent, float(lens.is_fisheye)])


@inlined
def project(lens: np.ndarray, zoom: float, seen: np.ndarray) -> tuple[float, float, float, float]:
    """Column and row of a point in the camera's frame, NaN where the lens sees nothing; the radial factor, and its
    derivative by x over x."""
    u = v = radial = growth = np.nan
    x, y = -seen[1] / seen[0], -seen[2] / seen[0]
    square = x * x + y * y
    radius = np.sqrt(square)
    if seen[0] > 0.1 and radius <= lens[10]:
        angle = np.arctan(radius) if lens[11] > 0 else radius
        t = angle * angle
        radial = 1 + t * (lens[6] + t * (lens[7] + t * (lens[8] + t * lens[9])))
        growth = 2 * (lens[6] + t * (2 * lens[7] + t * (3 * lens[8] + t * 4 * lens[9])))
        if lens[11] > 0 and radius > 0:
            whole_slope = (radial + t * growth) / (1 + square)
            radial *= angle / radius
            growth = (whole_slope - radial) / square
        u = lens[2] + zoom * lens[0] * (x * radial + 2 * lens[4] * x * y + lens[5] * (square + 2 * x * x))
        v = lens[3] + zoom * lens[1] * (y * radial + lens[4] * (square + 2 * y * y) + 2 * lens[5] * x * y)
    return u, v, radial, growth


@compiled
def look(
    edges: np.ndarray,  # f4 (P, height, width), -log p.
    lens: np.ndarray,  # f8 (12,), as of `numbers_of`.
    rotation: np.ndarray,  # of the camera, in the lidar frame.
    translation: np.ndarray,
    late: float,  # s.
    zoom: float,  # factor of the focal lengths.
    point: np.ndarray,  # f8 (N, 3), see `Outlines`, as `outward` and `passing`.
    outward: np.ndarray,
    passing: np.ndarray,
    plane: np.ndarray,  # i8 (N,), which of the edges.
    beyond: np.ndarray,  # f8 (M,), the parts.
    power: float,  # as of `sample`.
    values: np.ndarray,  # f8 (N,), NaN out of the picture.
    slopes: np.ndarray,  # f8 (N, 8), by rotation, translation, time and the logarithm of zoom, or (0, 8): not wanted.
    places: np.ndarray,  # f8 (N, 2), in the picture, 0 to 1.
) -> None:
    """Write -log p of N outlines, which are beyond their last points by any of some parts of the spacing."""
    height, width = edges.shape[1:]
    count = len(beyond)
    each, by = np.empty(count), np.zeros((count, 8))
    arm, seen, by_seen = np.empty(3), np.empty(3), np.empty(3)
    for n in range(len(point)):
        whole, peak, total = True, -np.inf, 0.0
        for m in range(count):
            # A picture that was taken later saw what was behind, and turned back, in the lidar's frame.
            for i in range(3):
                arm[i] = point[n, i] + beyond[m] * outward[n, i] - late * passing[n, i] - translation[i]
            for j in range(3):
                seen[j] = arm[0] * rotation[0, j] + arm[1] * rotation[1, j] + arm[2] * rotation[2, j]
            u, v, radial, growth = project(lens, zoom, seen)
            if m == count // 2:
                places[n, 0], places[n, 1] = u / width, v / height
            if not (u >= 0 and v >= 0 and u < width - 1 and v < height - 1):
                whole = False
                continue
            column, row = int(u), int(v)
            a, b = u - column, v - row
            corner, right = edges[plane[n], row, column], edges[plane[n], row, column + 1]
            below, opposite = edges[plane[n], row + 1, column], edges[plane[n], row + 1, column + 1]
            top, bottom = corner + a * (right - corner), below + a * (opposite - below)
            each[m] = top + b * (bottom - top)
            peak = max(peak, each[m])
            if len(slopes) == 0:
                continue
            x, y = -seen[1] / seen[0], -seen[2] / seen[0]
            du, dv = (1 - b) * (right - corner) + b * (opposite - below), bottom - top
            mixed = x * y * growth + 2 * (lens[4] * x + lens[5] * y)
            by_u, by_v = du * zoom * lens[0], dv * zoom * lens[1]
            dx = by_u * (radial + x * x * growth + 2 * lens[4] * y + 6 * lens[5] * x) + by_v * mixed
            dy = by_u * mixed + by_v * (radial + y * y * growth + 6 * lens[4] * y + 2 * lens[5] * x)
            by_seen[0], by_seen[1], by_seen[2] = -(dx * x + dy * y) / seen[0], -dx / seen[0], -dy / seen[0]
            by[m, 6], by[m, 7] = 0.0, du * (u - lens[2]) + dv * (v - lens[3])
            for i in range(3):
                by[m, 3 + i] = -(
                    rotation[i, 0] * by_seen[0] + rotation[i, 1] * by_seen[1] + rotation[i, 2] * by_seen[2]
                )
                by[m, 6] += by[m, 3 + i] * passing[n, i]
            for k in range(3):
                i, j = (k + 1) % 3, (k + 2) % 3
                by[m, k] = by[m, 3 + j] * arm[i] - by[m, 3 + i] * arm[j]
        values[n] = np.nan
        for k in range(8 * min(1, len(slopes))):
            slopes[n, k] = 0.0
        if not whole:
            continue
        for m in range(count):
            each[m] = np.exp(power * (each[m] - peak))
            total += each[m]
        values[n] = peak + np.log(total / count) / power
        for m in range(count if len(slopes) else 0):
            for k in range(8):
                slopes[n, k] += each[m] / total * by[m, k]
