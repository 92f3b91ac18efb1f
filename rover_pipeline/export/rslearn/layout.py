"""The files of an rslearn dataset, and the rules that rslearn relies on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.export.contents import Content, Json
from rover_pipeline.export.layout import File, Files, Layout
from rover_pipeline.format.files import regular_size
from rover_pipeline.lookup import optional


class _Raster(Content):
    """A GeoTIFF: its values (band, row, column), types, transform, value of unknown pixels, and crs."""

    def read(self, path: Path) -> dict[str, Any]:
        rasterio = optional("rasterio", "check of an rslearn dataset", "rslearn")
        try:
            regular_size(path)
            with rasterio.open(path) as file:
                return {
                    "values": file.read(),
                    "types": set(file.dtypes),
                    "transform": tuple(file.transform)[:6],
                    "nodata": file.nodata,
                    "crs": file.crs,
                }
        except (OSError, rasterio.errors.RasterioError) as error:
            raise ValueError(f"cannot be read: {error}") from error


def _grid(metadata: dict[str, Any]) -> tuple[list[int], float, float]:
    """Bounds of a window, left, top, right and bottom, pixels, and the size of a pixel along x and y."""
    (left, top, right, bottom), projection = metadata["bounds"], metadata["projection"]
    size = projection["x_resolution"], projection["y_resolution"]
    whole = all(type(each) is int for each in metadata["bounds"])
    if not (whole and left < right and top < bottom and projection["crs"] and 0 not in size):
        raise ValueError("no grid")
    return [left, top, right, bottom], *size


def _has_ordered_times(metadata: dict[str, Any]) -> bool:
    """Whether the times of a window, which it need not have, are two in their order, with their offset from UTC."""
    times = [datetime.fromisoformat(each) for each in metadata.get("time_range") or ()]
    return not times or (len(times) == 2 and all(each.tzinfo for each in times) and times[0] <= times[1])


def _coordinates(values: Any) -> list[float]:
    """All numbers of the coordinates of a feature."""
    return [each for value in values for each in _coordinates(value)] if isinstance(values, list) else [float(values)]


#: The files of a dataset. Layout.
_WINDOW = "windows/{group}/{window}/"
_LAYER = f"{_WINDOW}layers/{{layer}}/"
LAYOUT = Layout(
    config=File(
        "config.json",
        Json("layers"),
        {"names no layers": lambda content: isinstance(content["layers"], dict) and len(content["layers"]) > 0},
        keep=lambda content: content["layers"],
    ),
    windows=File(
        f"{_WINDOW}metadata.json",
        Json(),
        {
            "must give bounds of four integers and a projection with crs, x_resolution, y_resolution": (
                lambda metadata: len(_grid(metadata)) > 0
            ),
            "time_range must be two ordered times with their offset from UTC": _has_ordered_times,
        },
        keep=lambda metadata: {**metadata, "grid": _grid(metadata)},
    ),
    vectors=File(
        f"{_LAYER}data.geojson",
        Json(indent=None),
        {
            "is no FeatureCollection": lambda content: (
                content.get("type") == "FeatureCollection" and isinstance(content.get("features"), list)
            ),
            "names no crs, so that its metres would be read as degrees": lambda content: (
                content.get("properties") or content.get("crs")
            ),
            "a feature has no finite coordinates": lambda content: all(
                len(numbers) > 0 and np.isfinite(numbers).all()
                for numbers in (_coordinates(each["geometry"]["coordinates"]) for each in content["features"])
            ),
        },
        optional=True,
    ),
    rasters=File(
        f"{_LAYER}{{bands}}/geotiff.tif",
        _Raster(),
        {
            "has no crs": lambda raster: raster["crs"],
            "holds pixels that are not finite; they must have the value of nodata": lambda raster: np.isfinite(
                raster["values"]
            ),
        },
        optional=True,
        keep=lambda raster: {**raster, "values": raster["values"].shape},
    ),
    completed=File(f"{_LAYER}completed", Content()),
)


def describe(folder: Path) -> dict[str, Any]:
    """Figures of a dataset. Raises FormatError when a description is missing or damaged."""
    found = LAYOUT.kept(folder, "config", "windows")
    windows = [each.kept for each in found["windows"]]
    times = [each.get("time_range") or [] for each in windows]
    return {
        "windows": len(windows),
        "layers": sorted(name for each in found["config"] for name in each.kept),
        "windows_of_group": dict(Counter(str(each.keys["group"]) for each in found["windows"])),
        "windows_of_split": dict(Counter(str((each.get("options") or {}).get("split")) for each in windows)),
        "begin": min((each[0] for each in times if each), default=None),
        "end": max((each[1] for each in times if len(each) > 1), default=None),
    }


def relations(folder: Path, found: Files) -> Iterator[str]:
    """Windows without a complete layer, layers that lack a file or are not declared, and grids of another window."""
    layers = next((each.kept for each in found["config"] if isinstance(each.kept, dict)), {})
    rasters = {each.path: each.kept for each in found["rasters"]}
    vectors = {each.path for each in found["vectors"]}
    complete: dict[Path, list[str]] = {}
    for each in found["completed"]:
        complete.setdefault(each.path.parents[2], []).append(str(each.keys["layer"]))
    for window in found["windows"]:
        place = window.path.parent
        if place not in complete:
            yield f"{place}: no layer is complete"
        for name in complete.get(place, ()):
            path, layer = place / "layers" / name, layers.get(name)
            if layer is None:
                yield f"{place}: layer {name} is not in config.json"
            elif layer.get("type") == "vector":
                if path / "data.geojson" not in vectors:
                    yield f"{path / 'data.geojson'}: is missing"
            else:
                for bands in layer.get("band_sets", []):
                    names = bands.get("bands") or [f"B{at}" for at in range(int(bands.get("num_bands", 0)))]
                    raster = path / "_".join(names) / "geotiff.tif"
                    if raster not in rasters:
                        yield f"{raster}: is missing"
                    elif rasters[raster] and window.kept:
                        yield from _grid_problems(raster, rasters[raster], bands, len(names), *window.kept["grid"])
    for place in sorted(complete.keys() - {window.path.parent for window in found["windows"]}):
        yield f"{place / 'metadata.json'}: is missing"
    for name in sorted(set(layers) - {name for names in complete.values() for name in names}):
        yield f"{folder}: the layer {name} is complete in no window"


def _grid_problems(
    path: Path, raster: dict[str, Any], bands: dict[str, Any], count: int, bounds: list[int], x: float, y: float
) -> Iterator[str]:
    """A raster must have the grid of its window exactly, or rslearn blends its pixels without a word."""
    wanted = (x, 0, bounds[0] * x, 0, y, bounds[1] * y)
    shape = (bounds[3] - bounds[1], bounds[2] - bounds[0])
    if raster["values"][1:] != shape or not np.allclose(raster["transform"], wanted, atol=1e-9):
        yield f"{path}: its grid is not that of the window, {bounds}"
    if raster["values"][0] != count or raster["types"] != {bands.get("dtype")}:
        types = ", ".join(sorted(raster["types"]))
        yield f"{path}: has {raster['values'][0]} bands of {types}, not {count} of {bands.get('dtype')}"
    if "nodata_value" in bands and raster["nodata"] != bands["nodata_value"]:
        yield f"{path}: its nodata is {raster['nodata']}, not {bands['nodata_value']}"
