"""rslearn datasets read back: what they hold, and the rules that rslearn relies on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.errors import FormatError, MissingExtraError, RoverError
from rover_pipeline.format.files import regular_size
from rover_pipeline.format.texts import read_json


def describe(folder: Path) -> dict[str, Any]:
    """Figures of a dataset. Raises FormatError when a description is missing or damaged."""
    layers = _object(folder / "config.json").get("layers", {})
    splits: Counter[str] = Counter()
    groups: Counter[str] = Counter()
    begin: list[str] = []
    end: list[str] = []
    for window in windows(folder):
        metadata = _object(window / "metadata.json")
        groups[window.parent.name] += 1
        splits[str((metadata.get("options") or {}).get("split"))] += 1
        times = metadata.get("time_range") or []
        begin += times[:1]
        end += times[1:]
    return {
        "windows": sum(groups.values()),
        "layers": sorted(layers),
        "windows_of_group": dict(groups),
        "windows_of_split": dict(splits),
        "begin": min(begin, default=None),
        "end": max(end, default=None),
    }


def problems(folder: Path) -> Iterator[str]:
    """One line for each rule that a window breaks."""
    layers = _object(folder / "config.json").get("layers")
    if not isinstance(layers, dict) or not layers:
        yield f"{folder / 'config.json'}: names no layers"
        return
    complete: set[str] = set()
    for window in windows(folder):
        try:
            yield from (f"{window}: {problem}" for problem in _window_problems(window, layers, complete))
        except MissingExtraError:
            raise
        except RoverError as error:
            yield str(error)
    for name in sorted(set(layers) - complete):
        yield f"{folder}: the layer {name} is complete in no window"


def windows(folder: Path) -> list[Path]:
    """Folders of all windows, in the order of groups and names."""
    return sorted(path for path in folder.glob("windows/*/*") if not path.name.startswith("."))


def _object(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path)
    except OSError as error:
        raise FormatError(f"{path}: {error.strerror}; export the dataset again") from error
    if not isinstance(content, dict):
        raise FormatError(f"{path}: is no JSON object")
    return content


def _window_problems(window: Path, layers: dict[str, Any], complete: set[str]) -> Iterator[str]:
    metadata = _object(window / "metadata.json")
    try:
        bounds, projection = metadata["bounds"], metadata["projection"]
        size = projection["x_resolution"], projection["y_resolution"]
        right = len(bounds) == 4 and all(type(each) is int for each in bounds)
        right &= bounds[0] < bounds[2] and bounds[1] < bounds[3] and bool(projection["crs"]) and 0 not in size
    except (KeyError, TypeError):
        right = False
    if not right:
        yield "metadata.json must give bounds of four integers and a projection with crs, x_resolution, y_resolution"
        return
    yield from _time_problems(metadata.get("time_range"))
    found = {path.parent.name for path in window.glob("layers/*/completed")}
    complete |= found
    if not found:
        yield "no layer is complete"
    for name in sorted(found):
        folder, layer = window / "layers" / name, layers.get(name)
        if layer is None:
            yield f"layer {name} is not in config.json"
        elif layer.get("type") == "vector":
            yield from _vector_problems(folder / "data.geojson")
        else:
            for bands in layer.get("band_sets", []):
                names = bands.get("bands") or [f"B{at}" for at in range(int(bands.get("num_bands", 0)))]
                yield from _raster_problems(folder / "_".join(names) / "geotiff.tif", bands, len(names), bounds, size)


def _time_problems(times: object) -> Iterator[str]:
    if times is None:
        return
    try:
        begin, end = (datetime.fromisoformat(each) for each in times)  # type: ignore[attr-defined]
        if begin.tzinfo is None or end.tzinfo is None or begin > end:
            raise ValueError
    except (TypeError, ValueError):
        yield "metadata.json: time_range must be two ordered times with their offset from UTC"


def _vector_problems(path: Path) -> Iterator[str]:
    content = _object(path)
    features = content.get("features")
    if content.get("type") != "FeatureCollection" or not isinstance(features, list):
        yield f"{path.parent.name}/{path.name} is no FeatureCollection"
        return
    if not content.get("properties") and not content.get("crs"):
        yield f"{path.parent.name}/{path.name} names no crs, so that its metres would be read as degrees"
    for number, feature in enumerate(features):
        try:
            numbers = np.array(_flat(feature["geometry"]["coordinates"]), "f8")
        except (KeyError, TypeError, ValueError):
            numbers = np.array([np.nan])
        if not len(numbers) or not np.isfinite(numbers).all():
            yield f"{path.parent.name}/{path.name}: feature {number} has no finite coordinates"


def _flat(values: Any) -> list[float]:
    return [each for value in values for each in _flat(value)] if isinstance(values, list) else [values]


def _raster_problems(
    path: Path, bands: dict[str, Any], count: int, bounds: list[int], size: tuple[float, float]
) -> Iterator[str]:
    """A raster must have the grid of its window exactly, or rslearn blends its pixels without a word."""
    try:
        import rasterio
    except ImportError as error:
        raise MissingExtraError("check of an rslearn dataset", "rslearn") from error
    name = path.relative_to(path.parents[2])
    try:
        regular_size(path)
        with rasterio.open(path) as file:
            shape, types, transform, unknown = (file.height, file.width), set(file.dtypes), file.transform, file.nodata
            values, has_crs = file.read(), bool(file.crs)
    except (OSError, FormatError, rasterio.errors.RasterioError) as error:
        yield f"{name} cannot be read: {error}"
        return
    wanted = (size[0], 0, bounds[0] * size[0], 0, size[1], bounds[1] * size[1])
    if shape != (bounds[3] - bounds[1], bounds[2] - bounds[0]) or not np.allclose(
        tuple(transform)[:6], wanted, atol=1e-9
    ):
        yield f"{name}: its grid is not that of the window, {bounds}"
    if len(values) != count or types != {bands.get("dtype")}:
        yield f"{name}: has {len(values)} bands of {', '.join(sorted(types))}, not {count} of {bands.get('dtype')}"
    if not has_crs:
        yield f"{name}: has no crs"
    if "nodata_value" in bands and unknown != bands["nodata_value"]:
        yield f"{name}: its nodata is {unknown}, not {bands['nodata_value']}"
    if not np.isfinite(values).all():
        yield f"{name}: holds pixels that are not finite; they must have the value of nodata"
