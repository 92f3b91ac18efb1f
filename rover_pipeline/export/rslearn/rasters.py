"""The ground from above: occupancy and height from sweeps of the lidar, and power of the radar; as GeoTIFF."""

from __future__ import annotations

import numpy as np

from rover_pipeline.errors import MissingExtraError
from rover_pipeline.export.rslearn.windows import RASTERS, Tile
from rover_pipeline.mapping.grid import CellCounts, Extent

#: Edges above which a file is tiled, and edge of the tiles, pixels. Layout.
_BLOCK = 512


def occupancy(counts: CellCounts, extent: Extent) -> np.ndarray:
    """Share of the sweeps that hit something in a cell, among those that hit it or looked through it.

    Returns:
        u1 (row, column), percent, row 0 at the smallest y; 255 where no sweep observed the cell.
    """
    total = counts.hits.astype("i8") + counts.misses
    percent = np.full(extent.shape, RASTERS["occupancy"][2], "u1")
    seen = total > 0
    percent.ravel()[counts.cells[seen]] = np.rint(100 * counts.hits[seen] / total[seen])
    return percent


def height(counts: CellCounts, extent: Extent, top: float) -> np.ndarray:
    """Height of the highest surface of each cell above the floor.

    Args:
        top: height that level 255 of `CellCounts.tops` stands for, m.

    Returns:
        f4 (row, column), m, row 0 at the smallest y, to within `top` / 254; -9999 where there is no return.
    """
    metres = np.full(extent.shape, RASTERS["height"][2], "f4")
    seen = counts.tops > 0
    metres.ravel()[counts.cells[seen]] = (counts.tops[seen] - 1.0) / 254 * top
    return metres


class RadarPower:
    """Mean power of the radar's frames in each cell of the ground.

    The radar does not know from which elevation power comes. It is drawn where it would come from at its own height.

    Args:
        azimuth: f8 (azimuth,), rad, increasing to the right; range_m: f8 (range,), m, increasing.
        max_range: m.
        max_azimuth: rad; beams further from ahead are wide and see side lobes.
    """

    def __init__(
        self, extent: Extent, azimuth: np.ndarray, range_m: np.ndarray, max_range: float, max_azimuth: float
    ) -> None:
        self._extent = extent
        self._azimuth, self._range = _edges(azimuth), _edges(range_m)
        self._limits = min(max_range, float(range_m[-1])), min(max_azimuth, float(np.abs(azimuth).max()))
        self._sum, self._count = np.zeros(extent.shape), np.zeros(extent.shape, "u4")

    def add(self, power: np.ndarray, pos: np.ndarray, rot: np.ndarray) -> None:
        """Add a frame.

        Args:
            power: (azimuth, range), dB.
            pos: f8 (3,), m, of the radar; rot: f8 (3, 3), world-from-radar, front-left-up, z up.
        """
        reach, widest = self._limits
        edge = self._extent.edge
        low = np.floor((pos[:2] - reach) / edge).astype(int) - (self._extent.left, self._extent.bottom)
        high = np.ceil((pos[:2] + reach) / edge).astype(int) - (self._extent.left, self._extent.bottom)
        columns = slice(max(0, low[0]), max(0, min(self._extent.width, high[0])))
        rows = slice(max(0, low[1]), max(0, min(self._extent.height, high[1])))
        x = (np.arange(columns.start, columns.stop) + self._extent.left + 0.5) * edge - pos[0]
        y = (np.arange(rows.start, rows.stop) + self._extent.bottom + 0.5) * edge - pos[1]
        ahead = x * rot[0, 0] + (y * rot[1, 0])[:, None]
        left = x * rot[0, 1] + (y * rot[1, 1])[:, None]
        azimuth, distance = np.arctan2(-left, ahead), np.hypot(x, y[:, None])
        seen = (np.abs(azimuth) <= widest) & (distance <= reach) & (distance >= self._range[0])
        bins = (
            np.clip(np.searchsorted(self._azimuth, azimuth[seen]) - 1, 0, power.shape[0] - 1),
            np.clip(np.searchsorted(self._range, distance[seen]) - 1, 0, power.shape[1] - 1),
        )
        linear = 10 ** (power[bins].astype("f8") / 10)
        known = np.isfinite(linear)
        self._sum[rows, columns][seen] += np.where(known, linear, 0)
        self._count[rows, columns][seen] += known

    def mean(self) -> np.ndarray:
        """f4 (row, column), dB, row 0 at the smallest y; -9999 where no frame looked."""
        decibels = np.full(self._extent.shape, RASTERS["radar_power"][2], "f4")
        seen = (self._count > 0) & (self._sum > 0)
        decibels[seen] = 10 * np.log10(self._sum[seen] / self._count[seen])
        return decibels


def _edges(centres: np.ndarray) -> np.ndarray:
    """Lower edges of bins, halfway between their centres."""
    middle = (centres[:-1] + centres[1:]) / 2
    return np.r_[2 * centres[0] - middle[0], middle]


def geotiff(raster: np.ndarray, tile: Tile, crs: str, unknown: float) -> bytes:
    """A file with one band whose grid is exactly that of a window: readers then resample nothing.

    Args:
        raster: (row, column), row 0 at the largest y.
        unknown: value of pixels that are not known.

    Raises:
        MissingExtraError: rasterio is not installed.
    """
    try:
        from rasterio.io import MemoryFile
        from rasterio.transform import Affine
    except ImportError as error:
        raise MissingExtraError("export rslearn", "rslearn") from error
    left, top, _, _ = tile.bounds
    size = tile.resolution
    profile = {
        "driver": "GTiff",
        "height": raster.shape[0],
        "width": raster.shape[1],
        "count": 1,
        "dtype": raster.dtype.name,
        "crs": crs,
        "transform": Affine(size, 0, left * size, 0, -size, -top * size),
        "nodata": unknown,
        "compress": "lzw",
    }
    if max(raster.shape) > _BLOCK:
        profile |= {"tiled": True, "blockxsize": _BLOCK, "blockysize": _BLOCK}
    with MemoryFile() as memory:
        with memory.open(**profile) as file:
            file.write(raster, 1)
        return bytes(memory.getbuffer())
