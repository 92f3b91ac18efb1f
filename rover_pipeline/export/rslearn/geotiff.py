"""Rasters as GeoTIFF."""

from __future__ import annotations

import numpy as np

from rover_pipeline.errors import MissingExtraError
from rover_pipeline.export.rslearn.windows import Tile

#: Edges above which a file is tiled, and edge of the tiles, pixels.
_BLOCK = 512


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
