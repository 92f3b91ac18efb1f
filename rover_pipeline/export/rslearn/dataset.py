"""The rslearn dataset of some recordings: a group for each, a window for each slice of time and tile of the ground."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from rover_pipeline.datasets.options import RslearnOptions
from rover_pipeline.datasets.splits import Course
from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import FormatError
from rover_pipeline.export.dataset import ExportJob
from rover_pipeline.export.recording import Recording
from rover_pipeline.export.rslearn.layout import LAYOUT, describe, relations
from rover_pipeline.export.rslearn.rasters import geotiff
from rover_pipeline.export.rslearn.source import Ground, Slice, cut_slices
from rover_pipeline.export.rslearn.windows import (
    RASTERS,
    SPLIT_NAMES,
    VECTORS,
    collection,
    config,
    ground_crs,
    metadata,
    path_feature,
    power_layer,
    raster_of,
    tiles_of,
    track_features,
    window_name,
)

__all__ = ["LAYOUT", "describe", "relations", "write"]


def write(job: ExportJob) -> None:
    """Write `config.json` and `windows/RECORDING/SLICE_TILE/`.

    The coordinates are metres along x and y of each recording's world of `_odom`, turned so that z is up. Which place
    of the earth its origin is, nobody knows unless `latitude` and `longitude` say so.

    Raises:
        FormatError: a recording lacks something, or nothing of the ground was observed.
    """
    options: RslearnOptions = job.options
    radars = [_radars(job, recording) for recording in job.recordings]
    layers = _layers(options, dict.fromkeys(name for each in radars for name in each))
    crs = ground_crs(options.latitude, options.longitude)
    if (options.latitude, options.longitude) == (0, 0):
        job.note(
            "positions are metres from where each recording begins; the place on the earth, 0 N 0 E, is fictitious"
        )
    grounds = [Ground(recording, options, each) for recording, each in zip(job.recordings, radars, strict=True)]
    courses = [
        Course(recording.name, ground.ts[ground.numbers], ground.pos[ground.numbers])
        for recording, ground in zip(job.recordings, grounds, strict=True)
    ]
    for course, ground, split in zip(courses, grounds, job.split(courses), strict=True):
        if not ground.floor.is_plane:
            job.note(f"{course.name}: no floor was found; heights are above its lowest points")
        slices = cut_slices(ground.ts, ground.numbers, split, options.slice_s)
        with progress(f"export {course.name}", len(slices), "slice") as advance:
            for part in slices:
                make = partial(_write_slice, job, ground, course.name, part, layers, crs)
                job.part(f"{course.name} {part.number}", make)
                advance(1)
    if not any(job.folder.glob("windows/*/*/metadata.json")):
        raise FormatError("export rslearn: no tile of the ground was observed enough; lower min_share or tile_px")
    job.save("config", config(layers))


def _radars(job: ExportJob, recording: Recording) -> dict[str, Recording]:
    """Layer of power -> the recording as the radar of it sees it."""
    views = job.views(recording, "radar") if job.options.radar else []
    return {"radar_power" if view is recording else power_layer(view.called("radar")): view for view in views}


def _layers(options: RslearnOptions, radars: Iterable[str]) -> list[str]:
    names = [name for name in RASTERS if name != "radar_power"] + list(radars)
    return names + [name for name in VECTORS if name != "tracks" or options.objects]


def _write_slice(job: ExportJob, ground: Ground, group: str, part: Slice, layers: list[str], crs: str) -> list[Path]:
    """Write the windows of a slice. Returns the paths of their files, of which `completed` is the last in each."""
    options: RslearnOptions = job.options
    extent, rasters = ground.rasters(part, job.threads)
    observed = rasters["occupancy"] != RASTERS["occupancy"][2]
    times = ground.times(part)
    vectors = {"trajectory": collection([path_feature(times, ground.pos[part.numbers], {"kind": "rig"})], crs)}
    objects = ground.objects(part)
    if objects is not None:
        vectors["tracks"] = collection(track_features(objects, ground.classes), crs)
    about = {"recording": group, "slice": part.number, "split": SPLIT_NAMES[part.split]}
    files: list[Path] = []
    for tile in tiles_of(observed, extent, options.tile_px, options.min_share):
        keys = {"group": group, "window": window_name(part.number, tile)}
        files.append(job.save("windows", metadata(tile, crs, times[0], times[-1], about), **keys))
        made = [name for name in layers if name in vectors or name in rasters]  # a recording may lack a radar
        for name in made:
            if name in vectors:
                files.append(job.save("vectors", vectors[name], layer=name, **keys))
            else:
                band, _, unknown = raster_of(name)
                tiff = geotiff(tile.cut(rasters[name], extent, unknown), tile, crs, unknown)
                files.append(job.save("rasters", tiff, layer=name, bands=band, **keys))
        files += [job.save("completed", b"", layer=name, **keys) for name in made]  # the last of all
    return files
