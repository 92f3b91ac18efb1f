"""Ray casting and shading on boxes, cylinders and rectangles, compiled.

A few dozen analytic primitives need no mesh and no tree: rays are taken in tiles of neighbours, each tile looks
only at the primitives that its cone of view touches, and every ray of it takes the nearest.

All kernels that call each other are in this one file: Numba's cache on disk notices a change in the file of the
kernel that is called from Python, not in the files of the kernels inlined into it.
"""

from __future__ import annotations

import numpy as np

from rover_pipeline.numerics.compiled import compiled, inlined
from rover_pipeline.simulate.materials import BRICK, PLAIN, PLANK, STRIPE, TILE, Look
from rover_pipeline.simulate.world import BOX, CYLINDER, Solids

#: Hits nearer than this are the surface that the ray starts from.
NEAR = 1e-4
_TILE = 16


@inlined
def distance_to(solids: Solids, i: int, ox: float, oy: float, oz: float, dx: float, dy: float, dz: float) -> float:
    """Metres along a unit ray to the outside of primitive `i`; infinite when it misses or starts inside."""
    px, py, pz = ox - solids.centre[i, 0], oy - solids.centre[i, 1], oz - solids.centre[i, 2]
    axes = solids.axes
    lx = axes[i, 0, 0] * px + axes[i, 0, 1] * py + axes[i, 0, 2] * pz
    ly = axes[i, 1, 0] * px + axes[i, 1, 1] * py + axes[i, 1, 2] * pz
    lz = axes[i, 2, 0] * px + axes[i, 2, 1] * py + axes[i, 2, 2] * pz
    ux = axes[i, 0, 0] * dx + axes[i, 0, 1] * dy + axes[i, 0, 2] * dz
    uy = axes[i, 1, 0] * dx + axes[i, 1, 1] * dy + axes[i, 1, 2] * dz
    uz = axes[i, 2, 0] * dx + axes[i, 2, 1] * dy + axes[i, 2, 2] * dz
    hx, hy, hz = solids.half[i, 0], solids.half[i, 1], solids.half[i, 2]
    if solids.kind[i] == BOX:
        # Slabs. Division by zero gives the infinities that the comparisons need.
        ix, iy, iz = 1.0 / ux, 1.0 / uy, 1.0 / uz
        mx, my, mz = abs(ix) * hx, abs(iy) * hy, abs(iz) * hz
        enter = max(-lx * ix - mx, -ly * iy - my, -lz * iz - mz)
        leave = min(-lx * ix + mx, -ly * iy + my, -lz * iz + mz)
        return enter if NEAR < enter <= leave else np.inf
    if solids.kind[i] == CYLINDER:
        best = np.inf
        a2, b, c = ux * ux + uy * uy, lx * ux + ly * uy, lx * lx + ly * ly - hx * hx
        root = b * b - a2 * c
        if root >= 0.0 and a2 > 0.0:
            t = (-b - np.sqrt(root)) / a2
            if t > NEAR and abs(lz + t * uz) <= hz:
                best = t
        if uz != 0.0:
            t = ((hz if uz < 0.0 else -hz) - lz) / uz
            x, y = lx + t * ux, ly + t * uy
            if NEAR < t < best and x * x + y * y <= hx * hx:
                best = t
        return best
    t = -lz / uz
    return t if t > NEAR and abs(lx + t * ux) <= hx and abs(ly + t * uy) <= hy else np.inf


@compiled
def gather(
    solids: Solids,
    origin: np.ndarray,
    slack: float,
    axis: np.ndarray,
    cos: float,
    sin: float,
    lag: float,
    found: np.ndarray,
) -> int:
    """Number of primitives that a cone of rays can touch; their indices go to `found`.

    Args:
        origin: apex, (3,).
        slack: how far the rays' own origins lie from it, metres.
        axis: unit direction, (3,); `cos`, `sin` of the half angle around it.
        lag: the longest time the rays lie from the instant of `solids`, seconds.
    """
    count = 0
    for i in range(len(solids.kind)):
        x, y, z = solids.centre[i, 0] - origin[0], solids.centre[i, 1] - origin[1], solids.centre[i, 2] - origin[2]
        v = solids.velocity[i]
        reach = solids.reach[i] + slack + lag * np.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
        square = x * x + y * y + z * z
        if square > reach * reach:
            along = x * axis[0] + y * axis[1] + z * axis[2]
            aside = np.sqrt(max(square - along * along, 0.0))
            if along * cos + aside * sin < 0.0 or aside * cos - along * sin > reach:
                continue
        found[count] = i
        count += 1
    return count


@compiled
def nearest(
    solids: Solids, found: np.ndarray, count: int, o: np.ndarray, d: np.ndarray, lag: float
) -> tuple[float, int]:
    """Metres to the first primitive among `found[:count]` that a ray hits `lag` seconds later, and its index."""
    best, which = np.inf, -1
    for n in range(count):
        i = found[n]
        t = distance_to(
            solids,
            i,
            o[0] - lag * solids.velocity[i, 0],
            o[1] - lag * solids.velocity[i, 1],
            o[2] - lag * solids.velocity[i, 2],
            d[0],
            d[1],
            d[2],
        )
        if t < best:
            best, which = t, i
    return best, which


@compiled
def surface(solids: Solids, i: int, x: float, y: float, z: float, normal: np.ndarray) -> tuple[float, float]:
    """Two coordinates on the surface of primitive `i` at a point of it, metres; the unit normal goes to `normal`."""
    px, py, pz = x - solids.centre[i, 0], y - solids.centre[i, 1], z - solids.centre[i, 2]
    a, h = solids.axes[i], solids.half[i]
    lx = a[0, 0] * px + a[0, 1] * py + a[0, 2] * pz
    ly = a[1, 0] * px + a[1, 1] * py + a[1, 2] * pz
    lz = a[2, 0] * px + a[2, 1] * py + a[2, 2] * pz
    nx, ny, nz, u, v = 0.0, 0.0, 1.0, lx, ly
    if solids.kind[i] == BOX:
        # The face is the one whose plane the point lies nearest to.
        gx, gy, gz = abs(abs(lx) - h[0]), abs(abs(ly) - h[1]), abs(abs(lz) - h[2])
        if gx <= gy and gx <= gz:
            nx, nz, u, v = np.sign(lx), 0.0, ly, lz
        elif gy <= gz:
            ny, nz, u, v = np.sign(ly), 0.0, lx, lz
        else:
            nz = np.sign(lz)
    elif solids.kind[i] == CYLINDER:
        if abs(abs(lz) - h[2]) < abs(np.sqrt(lx * lx + ly * ly) - h[0]):
            nz = np.sign(lz)
        else:
            nx, ny, nz, u, v = lx / h[0], ly / h[0], 0.0, np.arctan2(ly, lx) * h[0], lz
    for k in range(3):
        normal[k] = a[0, k] * nx + a[1, k] * ny + a[2, k] * nz
    return u, v


@compiled
def visible(solids: Solids, eye: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Whether nothing stands between the eye, (3,), and each of the points, (N, 3), on surfaces. bool (N,)."""
    clear = np.ones(len(points), np.bool_)
    everything = np.arange(len(solids.kind))
    d = np.empty(3)
    for n in range(len(points)):
        d[:] = points[n] - eye
        length = np.sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2])
        d /= length
        t, _ = nearest(solids, everything, len(everything), eye, d, 0.0)
        clear[n] = t > length - 0.02
    return clear


@compiled
def _cell(i: int, j: int) -> float:
    """A fixed random number in [0, 1) for a cell of the integer grid."""
    h = (i * 374761393 + j * 668265263) & 0xFFFFFFFF
    h = ((h ^ (h >> 13)) * 1274126177) & 0xFFFFFFFF
    return ((h ^ (h >> 16)) & 0xFFFF) / 65536.0


@compiled
def _noise(u: float, v: float) -> float:
    """Smooth random field in [0, 1) with features of size 1."""
    i, j = int(np.floor(u)), int(np.floor(v))
    x, y = u - i, v - j
    x, y = x * x * (3.0 - 2.0 * x), y * y * (3.0 - 2.0 * y)
    low = _cell(i, j) * (1.0 - x) + _cell(i + 1, j) * x
    high = _cell(i, j + 1) * (1.0 - x) + _cell(i + 1, j + 1) * x
    return low * (1.0 - y) + high * y


@compiled
def shade(texture: int, grain: float, contrast: float, u: float, v: float) -> float:
    """Share of a surface's reflectivity at surface coordinates in metres, `1 - contrast` to 1."""
    if texture == PLAIN:
        return 1.0
    u, v = u / grain, v / grain
    dark = 0.6 * _noise(u, v) + 0.4 * _noise(4.1 * u, 4.1 * v)
    if texture == STRIPE:
        dark = 0.75 * _cell(int(np.floor(u)), 7) + 0.25 * dark
    elif texture == PLANK:
        row = int(np.floor(v))
        along = u / 7.0 + _cell(row, 3)
        seam = v - row < 0.06 or along - np.floor(along) < 0.01
        dark = 1.0 if seam else 0.5 * _cell(row, int(np.floor(along))) + 0.5 * _noise(0.6 * u, 9.0 * v)
    elif texture == TILE:
        seam = u - np.floor(u) < 0.035 or v - np.floor(v) < 0.035
        dark = 1.0 if seam else 0.4 * _cell(int(np.floor(u)), int(np.floor(v))) + 0.3 * dark
    elif texture == BRICK:
        row = int(np.floor(3.0 * v))
        along = u + 0.5 * (row % 2)
        seam = 3.0 * v - row < 0.12 or along - np.floor(along) < 0.04
        dark = 0.0 if seam else 0.35 + 0.45 * _cell(int(np.floor(along)), row) + 0.2 * dark
    return 1.0 - contrast * dark


@compiled
def trace(
    solids: Solids,
    look: Look,
    origin: np.ndarray,
    direction: np.ndarray,
    pos: np.ndarray,
    rot: np.ndarray,
    lag: np.ndarray,
    sun: np.ndarray,
    strength: float,
    ambient: float,
    distance: np.ndarray,
    reflectivity: np.ndarray,
    light: np.ndarray,
) -> None:
    """Casts the rays of one revolution of a lidar, tile by tile.

    Args:
        origin, direction: f8 (column, 3) and (beam, column, 3), of the rays in the sensor frame.
        pos, rot: f8 (column, 3) and (column, 3, 3), the sensor's poses at the columns' instants.
        lag: f8 (column,), seconds from the instant of `solids` to each column's.
        sun, strength, ambient: as in `Light`.
        distance, reflectivity, light: f4 (beam, column), take the results, as in `Echoes`.
    """
    beams, columns = distance.shape
    found = np.empty(len(solids.kind), np.int64)
    starts, ways = np.empty((_TILE, 3)), np.empty((_TILE, _TILE, 3))
    axis, apex, normal = np.empty(3), np.empty(3), np.empty(3)
    for left in range(0, columns, _TILE):
        width = min(_TILE, columns - left)
        for c in range(width):
            for k in range(3):
                starts[c, k] = pos[left + c, k] + _turned(rot, left + c, k, origin[left + c])
        apex[:] = starts[width // 2]
        slack, late = 0.0, 0.0
        for c in range(width):
            slack = max(slack, np.sqrt(np.sum((starts[c] - apex) ** 2)))
            late = max(late, abs(lag[left + c]))
        for top in range(0, beams, _TILE):
            height = min(_TILE, beams - top)
            axis[:] = 0.0
            for b in range(height):
                for c in range(width):
                    for k in range(3):
                        ways[b, c, k] = _turned(rot, left + c, k, direction[top + b, left + c])
                        axis[k] += ways[b, c, k]
            axis /= np.sqrt(np.sum(axis**2))
            cos = 1.0
            for b in range(height):
                for c in range(width):
                    cos = min(cos, ways[b, c, 0] * axis[0] + ways[b, c, 1] * axis[1] + ways[b, c, 2] * axis[2])
            count = gather(solids, apex, slack, axis, cos, np.sqrt(1.0 - cos * cos), late, found)
            for b in range(height):
                for c in range(width):
                    d, o = ways[b, c], starts[c]
                    t, i = nearest(solids, found, count, o, d, lag[left + c])
                    distance[top + b, left + c] = t
                    reflectivity[top + b, left + c] = light[top + b, left + c] = 0.0
                    if i < 0:
                        continue
                    v = lag[left + c] * solids.velocity[i]
                    u, w = surface(
                        solids, i, o[0] + t * d[0] - v[0], o[1] + t * d[1] - v[1], o[2] + t * d[2] - v[2], normal
                    )
                    m = solids.material[i]
                    share = shade(look.texture[m], look.grain[m], look.contrast[m], u, w)
                    facing = abs(d[0] * normal[0] + d[1] * normal[1] + d[2] * normal[2])
                    lit = max(0.0, normal[0] * sun[0] + normal[1] * sun[1] + normal[2] * sun[2])
                    whole = look.reflectivity[m] * share
                    # A retroreflector sends light back whatever its angle.
                    reflectivity[top + b, left + c] = whole if look.reflectivity[m] > 1.0 else whole * facing
                    light[top + b, left + c] = min(whole, 1.0) * (ambient + strength * lit) + look.glow[m]


@inlined
def _turned(rot: np.ndarray, n: int, k: int, v: np.ndarray) -> float:
    """Component `k` of the vector `v` turned by the `n`-th rotation."""
    return rot[n, k, 0] * v[0] + rot[n, k, 1] * v[1] + rot[n, k, 2] * v[2]


@compiled
def render(
    solids: Solids,
    look: Look,
    eye: np.ndarray,
    rot: np.ndarray,
    lens: np.ndarray,
    sun: np.ndarray,
    strength: float,
    lamps: np.ndarray,
    ambient: float,
    sky: np.ndarray,
    image: np.ndarray,
) -> None:
    """Draws what a pinhole camera sees, tile by tile.

    Args:
        eye, rot: pose of the camera, scene-from-camera.
        lens: fx, fy, cx, cy, pixels.
        sun, strength, lamps, ambient, sky: as in `Light`.
        image: u1 (height, width, 3), takes the picture.
    """
    height, width = image.shape[:2]
    found = np.empty(len(solids.kind), np.int64)
    axis, d, normal = np.empty(3), np.empty(3), np.empty(3)
    for top in range(0, height, _TILE):
        for left in range(0, width, _TILE):
            bottom, right = min(top + _TILE, height), min(left + _TILE, width)
            _ray(rot, lens, (left + right - 1) / 2, (top + bottom - 1) / 2, axis)
            cos = 1.0
            for v in (top, bottom - 1):
                for u in (left, right - 1):
                    _ray(rot, lens, u, v, d)
                    cos = min(cos, d[0] * axis[0] + d[1] * axis[1] + d[2] * axis[2])
            count = gather(solids, eye, 0.0, axis, cos, np.sqrt(1.0 - cos * cos), 0.0, found)
            for v in range(top, bottom):
                for u in range(left, right):
                    _ray(rot, lens, u, v, d)
                    t, i = nearest(solids, found, count, eye, d, 0.0)
                    if i < 0:
                        haze = min(1.0, 0.25 + 1.2 * max(d[2], 0.0))
                        for k in range(3):
                            image[v, u, k] = _level(sky[k] * haze + (1.0 - haze) * (0.55 + 0.45 * sky[k]))
                        continue
                    x, y, z = eye[0] + t * d[0], eye[1] + t * d[1], eye[2] + t * d[2]
                    a, b = surface(solids, i, x, y, z, normal)
                    m = solids.material[i]
                    # A pattern finer than a pixel would only flicker: it fades out with the distance.
                    fine = t / (lens[0] * 0.25 * look.grain[m])
                    share = shade(look.texture[m], look.grain[m], look.contrast[m] / (1.0 + fine * fine), a, b)
                    # Faces that look up are a little brighter than those that look down, whatever shines.
                    light = ambient * (1.0 + 0.25 * normal[2])
                    if strength > 0.0:
                        light += strength * max(0.0, normal[0] * sun[0] + normal[1] * sun[1] + normal[2] * sun[2])
                    for n in range(len(lamps)):
                        lx, ly, lz = lamps[n, 0] - x, lamps[n, 1] - y, lamps[n, 2] - z
                        far = lx * lx + ly * ly + lz * lz
                        toward = lx * normal[0] + ly * normal[1] + lz * normal[2]
                        light += 1.6 * max(0.0, toward) / np.sqrt(far) / (1.5 + far)
                    glow = look.glow[m]
                    for k in range(3):
                        image[v, u, k] = _level(look.colour[m, k] * (share * light * (1.0 - glow) + glow))


@compiled
def _ray(rot: np.ndarray, lens: np.ndarray, u: float, v: float, out: np.ndarray) -> None:
    """Unit direction in the scene of the ray through a pixel."""
    y, z = (lens[2] - u) / lens[0], (lens[3] - v) / lens[1]
    scale = 1.0 / np.sqrt(1.0 + y * y + z * z)
    for k in range(3):
        out[k] = (rot[k, 0] + rot[k, 1] * y + rot[k, 2] * z) * scale


@compiled
def _level(light: float) -> int:
    """A display's level of linear light, 0 to 255 (gamma 2, near enough)."""
    return int(255.0 * np.sqrt(min(max(light, 0.0), 1.0)) + 0.5)
