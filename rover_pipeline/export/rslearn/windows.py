"""Windows of the ground and the small files that describe them.

A window is a square tile of the ground during a slice of time. Its pixels count from the origin of the world to the
right along x and downward against y, so that row 0 has the largest y.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.export.objects import Objects
from rover_pipeline.lookup import optional
from rover_pipeline.mapping.grid import CellCounts, Extent
from rover_pipeline.numerics.linear import matmul

#: Raster layer -> its band, type, and the value of pixels that are not known. Layout.
RASTERS: dict[str, tuple[str, str, float]] = {
    "occupancy": ("occupancy", "uint8", 255),
    "height": ("height", "float32", -9999.0),
    "radar_power": ("power", "float32", -9999.0),
}
VECTORS = ("trajectory", "tracks")
#: A frame of a radar: power, (azimuth, range), dB; its position, f8 (3,), m; and its rotation, f8 (3, 3),
#: world-from-radar, front-left-up, z up.
Frame = tuple[np.ndarray, np.ndarray, np.ndarray]
#: Corners of a box, in halves of its length and width. Layout.
_CORNERS = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1], [1, 1]]) / 2


class Tile(NamedTuple):
    """A square of the ground: its number from the origin of the world along x and y, the number of pixels along an
    edge, and the edge of a pixel, m."""

    x: int
    y: int
    pixels: int
    resolution: float

    @property
    def bounds(self) -> tuple[int, int, int, int]:
        """Left, top, right and bottom, pixels."""
        size = self.pixels
        return self.x * size, -(self.y + 1) * size, (self.x + 1) * size, -self.y * size

    def cut(self, grid: np.ndarray, extent: Extent, unknown: float) -> np.ndarray:
        """The part of a grid, (row, column) with row 0 at the smallest y, that lies in the tile: (pixels, pixels), row
        0 at the largest y; `unknown` outside of the grid."""
        tile = np.full((self.pixels, self.pixels), unknown, grid.dtype)
        left, bottom = self.x * self.pixels - extent.left, self.y * self.pixels - extent.bottom
        rows = np.intersect1d(np.arange(extent.height), bottom + np.arange(self.pixels))
        columns = np.intersect1d(np.arange(extent.width), left + np.arange(self.pixels))
        tile[np.ix_(rows - bottom, columns - left)] = grid[np.ix_(rows, columns)]
        return tile[::-1]


def tiles_of(observed: np.ndarray, extent: Extent, pixels: int, min_share: float) -> list[Tile]:
    """Tiles of which at least a share of the pixels is observed, in the order of x and y. `observed`: bool (row,
    column), row 0 at the smallest y."""
    row, column = np.nonzero(observed)
    numbers = np.stack([(column + extent.left) // pixels, (row + extent.bottom) // pixels], 1)
    found, counts = np.unique(numbers, axis=0, return_counts=True)
    chosen = found[counts >= min_share * pixels**2]
    return [Tile(int(x), int(y), pixels, extent.edge) for x, y in chosen]


def window_name(number: int, tile: Tile) -> str:
    """The name of a window: the number of its slice, and its tile east and north of the origin."""
    return f"{number:05d}_x{tile.x:+04d}_y{tile.y:+04d}"


def raster_of(layer: str) -> tuple[str, str, float]:
    """See `RASTERS`."""
    return RASTERS.get(layer, RASTERS["radar_power"])


def config(layers: Sequence[str]) -> dict[str, Any]:
    """`config.json` of a dataset with some of the layers."""
    described: dict[str, Any] = {}
    for name in layers:
        if name not in VECTORS:
            band, dtype, unknown = raster_of(name)
            bands = {"bands": [band], "dtype": dtype, "nodata_value": int(unknown) if dtype == "uint8" else unknown}
            described[name] = {"type": "raster", "band_sets": [bands]}
        else:
            described[name] = {"type": "vector"}
    return {"layers": described}


def metadata(tile: Tile, crs: str, begin: float, end: float, options: dict[str, Any]) -> dict[str, Any]:
    """`metadata.json` of a window of coordinates that `crs` describes, from the first to the last sweep that it shows,
    s, with options such as `split`."""
    return {
        "bounds": list(tile.bounds),
        "options": options,
        "projection": {"crs": crs, "x_resolution": tile.resolution, "y_resolution": -tile.resolution},
        "time_range": [iso_time(begin), iso_time(end)],
    }


def ground_crs(latitude: float, longitude: float) -> str:
    """Metres east and north of a place, as a PROJ text.

    A transverse Mercator projection around the place itself is true to a millimetre in a kilometre. GeoTIFF cannot hold
    a frame that is bound to no place: GDAL refuses to convert from and to it.
    """
    place = f"+lat_0={latitude:.10g} +lon_0={longitude:.10g}"
    return f"+proj=tmerc {place} +k=1 +x_0=0 +y_0=0 +datum=WGS84 +units=m +no_defs"


def iso_time(ts: float) -> str:
    """A time, s since the epoch, as ISO 8601 in UTC with microseconds."""
    return datetime.fromtimestamp(round(ts * 1e6) / 1e6, UTC).isoformat(timespec="microseconds")


def collection(features: Sequence[dict[str, Any]], crs: str) -> dict[str, Any]:
    """A GeoJSON file whose coordinates are metres of the ground: pixels of one metre, with y upward. Without its
    `properties` readers would take the numbers for degrees."""
    properties = {"crs": crs, "x_resolution": 1, "y_resolution": 1}
    return {"type": "FeatureCollection", "properties": properties, "features": list(features)}


def path_feature(ts: np.ndarray, pos: np.ndarray, properties: dict[str, Any]) -> dict[str, Any]:
    """A line through positions, f8 (N, 2 or more), m, or a point where nothing moves, with properties besides `times`,
    those of its corners, from `ts`, f8 (N,), s."""
    places = np.round(pos[:, :2], 2)
    # A line whose corners are all at one place is not valid.
    corners = np.append(0, 1 + np.flatnonzero((places[1:] != places[:-1]).any(axis=1)))
    coordinates = places[corners].tolist()
    line = {"type": "LineString", "coordinates": coordinates}
    geometry = line if len(corners) > 1 else {"type": "Point", "coordinates": coordinates[0]}
    times = {"begin": iso_time(ts[0]), "end": iso_time(ts[-1]), "times": [iso_time(ts[at]) for at in corners]}
    return {"type": "Feature", "geometry": geometry, "properties": {**properties, **times}}


def track_features(objects: Objects, classes: Sequence[str]) -> list[dict[str, Any]]:
    """For each track its way, and its box where it was seen last."""
    features = []
    for track in np.unique(objects.track):
        rows = objects.select(objects.track == track)
        mean = rows.probability.mean(0)
        properties = {
            "track": int(track),
            "label": classes[int(mean.argmax())],
            "probability": {name: round(float(value), 4) for name, value in zip(classes, mean, strict=True)},
            "speed_mps": round(float(np.linalg.norm(rows.vel, axis=1).mean()), 3),
        }
        features.append(path_feature(rows.ts, rows.centre, {"kind": "way", **properties}))
        length, width, _ = rows.extent[-1]
        cos, sin = np.cos(rows.yaw[-1]), np.sin(rows.yaw[-1])
        corners = matmul(_CORNERS * (length, width), np.array([[cos, sin], [-sin, cos]])) + rows.centre[-1, :2]
        box = {
            "extent_m": np.round(rows.extent[-1], 3).tolist(),
            "yaw_rad": round(float(rows.yaw[-1]), 4),
            "time": iso_time(rows.ts[-1]),
        }
        geometry = {"type": "Polygon", "coordinates": [np.round(corners, 4).tolist()]}
        features.append({"type": "Feature", "geometry": geometry, "properties": {"kind": "box", **properties, **box}})
    return features


# The ground from above: occupancy and height from sweeps of the lidar, and power of the radar; as GeoTIFF.

#: Edges above which a file is tiled, and edge of the tiles, pixels. Layout.
_BLOCK = 512


def occupancy(counts: CellCounts, extent: Extent) -> np.ndarray:
    """Share of the sweeps that hit something in a cell, among those that hit it or looked through it: u1 (row, column),
    percent, row 0 at the smallest y; 255 where no sweep observed the cell."""
    total = counts.hits.astype("i8") + counts.misses
    percent = np.full(extent.shape, RASTERS["occupancy"][2], "u1")
    seen = total > 0
    percent.ravel()[counts.cells[seen]] = np.rint(100 * counts.hits[seen] / total[seen])
    return percent


def height(counts: CellCounts, extent: Extent, top: float) -> np.ndarray:
    """Height of the highest surface of each cell above the floor: f4 (row, column), m, row 0 at the smallest y, to
    within `top` / 254; -9999 where there is no return. `top`: height that level 255 of `CellCounts.tops` stands for, m.
    """
    metres = np.full(extent.shape, RASTERS["height"][2], "f4")
    seen = counts.tops > 0
    metres.ravel()[counts.cells[seen]] = (counts.tops[seen] - 1.0) / 254 * top
    return metres


def radar_power(
    extent: Extent, azimuth: np.ndarray, range_m: np.ndarray, frames: Iterable[Frame], max_range: float, widest: float
) -> np.ndarray:
    """Mean power of the radar's frames in each cell of the ground.

    The radar does not know from which elevation power comes. It is drawn where it would come from at its own height.

    Args:
        azimuth: f8 (azimuth,), rad, increasing to the right; range_m: f8 (range,), m, increasing.
        max_range: m.
        widest: largest azimuth, rad; beams further from ahead are wide and see side lobes.

    Returns:
        f4 (row, column), dB, row 0 at the smallest y; -9999 where no frame looked.
    """
    azimuths, ranges, edge = _edges(azimuth), _edges(range_m), extent.edge
    reach, widest = min(max_range, float(range_m[-1])), min(widest, float(np.abs(azimuth).max()))
    total, count = np.zeros(extent.shape), np.zeros(extent.shape, "u4")
    for power, pos, rot in frames:
        low = np.floor((pos[:2] - reach) / edge).astype(int) - (extent.left, extent.bottom)
        high = np.ceil((pos[:2] + reach) / edge).astype(int) - (extent.left, extent.bottom)
        columns = slice(max(0, low[0]), max(0, min(extent.width, high[0])))
        rows = slice(max(0, low[1]), max(0, min(extent.height, high[1])))
        x = (np.arange(columns.start, columns.stop) + extent.left + 0.5) * edge - pos[0]
        y = (np.arange(rows.start, rows.stop) + extent.bottom + 0.5) * edge - pos[1]
        ahead = x * rot[0, 0] + (y * rot[1, 0])[:, None]
        left = x * rot[0, 1] + (y * rot[1, 1])[:, None]
        direction, distance = np.arctan2(-left, ahead), np.hypot(x, y[:, None])
        seen = (np.abs(direction) <= widest) & (distance <= reach) & (distance >= ranges[0])
        bins = (
            np.clip(np.searchsorted(azimuths, direction[seen]) - 1, 0, power.shape[0] - 1),
            np.clip(np.searchsorted(ranges, distance[seen]) - 1, 0, power.shape[1] - 1),
        )
        linear = 10 ** (power[bins].astype("f8") / 10)
        known = np.isfinite(linear)
        total[rows, columns][seen] += np.where(known, linear, 0)
        count[rows, columns][seen] += known
    decibels = np.full(extent.shape, RASTERS["radar_power"][2], "f4")
    seen = (count > 0) & (total > 0)
    decibels[seen] = 10 * np.log10(total[seen] / count[seen])
    return decibels


def _edges(centres: np.ndarray) -> np.ndarray:
    """Lower edges of bins, halfway between their centres."""
    middle = (centres[:-1] + centres[1:]) / 2
    return np.r_[2 * centres[0] - middle[0], middle]


def geotiff(raster: np.ndarray, tile: Tile, crs: str, unknown: float) -> bytes:
    """A file with one band whose grid is exactly that of a window: readers then resample nothing. Raises
    MissingExtraError where rasterio is not installed. `raster`: (row, column), row 0 at the largest y; `unknown`: value
    of pixels that are not known."""
    rasterio = optional("rasterio", "export rslearn", "rslearn")
    left, top, _, _ = tile.bounds
    size = tile.resolution
    profile = {
        "driver": "GTiff",
        "height": raster.shape[0],
        "width": raster.shape[1],
        "count": 1,
        "dtype": raster.dtype.name,
        "crs": crs,
        "transform": rasterio.Affine(size, 0, left * size, 0, -size, -top * size),
        "nodata": unknown,
        "compress": "lzw",
    }
    if max(raster.shape) > _BLOCK:
        profile |= {"tiled": True, "blockxsize": _BLOCK, "blockysize": _BLOCK}
    with rasterio.MemoryFile() as memory:
        with memory.open(**profile) as file:
            file.write(raster, 1)
        return bytes(memory.getbuffer())
