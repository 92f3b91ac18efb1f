"""The files of an EdgeFirst dataset, and the rules that they keep alone and together."""

from __future__ import annotations

import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.export.contents import Content, Json
from rover_pipeline.export.edgefirst.table import COLUMNS, arrow, read_table, type_text
from rover_pipeline.export.layout import File, Files, Layout
from rover_pipeline.export.pictures import Pcd, Picture
from rover_pipeline.export.tuning import TUNING
from rover_pipeline.format.files import opened_file

#: Other types of columns that readers take, and a column of other programs.
_ALSO = {"frame": "uint64", "label": "string"}
_OTHERS = {"location": "float[2]"}
_VERSIONS = ("2026.04", "2026.10")
_READ_BYTES = 1 << 20  # Schedule.
_CAMERAS = ("camera.jpeg", "camera.png")


class _Table(Content):
    """The Arrow table, by pyarrow."""

    def read(self, path: Path) -> Any:
        try:
            return read_table(path)
        except arrow().ArrowException as error:
            raise ValueError(f"is no Arrow file: {error}; export it again") from error


class _Archive(Content):
    """Bytes and CRC-32 of each file of a ZIP."""

    def read(self, path: Path) -> dict[str, tuple[int, int]]:
        try:
            with opened_file(path) as file, zipfile.ZipFile(file) as archive:
                entries = [entry for entry in archive.infolist() if not entry.is_dir()]
                bad = archive.testzip()
        except zipfile.BadZipFile as error:
            raise ValueError(f"is no whole archive: {error}") from error
        if bad:
            raise ValueError(f"{bad} is damaged")
        return {entry.filename: (entry.file_size, entry.CRC) for entry in entries}


def _sample(kind: str, content: Content, rules: Mapping[str, Any] | None = None) -> dict[str, File]:
    """The files of one kind of the samples, of which the size of pictures is kept."""
    path = "{dataset}/{sequence}/{sequence}_{frame:03d}." + kind
    return {kind: File(path, content, rules or {}, True, lambda value: getattr(value, "shape", ())[1::-1])}


def _is_near(cloud: Mapping[str, np.ndarray]) -> bool:
    return not len(cloud["x"]) or bool(1e-6 <= np.abs([cloud[axis] for axis in "xyz"]).max() <= TUNING.max_range_m)


#: What a picture of depth or of a cube must be. Layout.
_GREY = {"must be greyscale of 16 bits": lambda image: image.dtype == np.uint16 and image.ndim == 2}
#: Values in another byte order are too large, or denormal.
_NEAR = {
    f"its points are further than {TUNING.max_range_m:g} m away, or all at zero: is the byte order right?": _is_near
}
#: The files of a dataset. Layout.
LAYOUT = Layout(
    table=File("{dataset}.arrow", _Table(), keep=lambda table: table),
    archive=File("{dataset}.zip", _Archive(), optional=True, keep=lambda entries: entries),
    sensors=File("sensors.json", Json(), optional=True),
    **_sample("camera.jpeg", Picture()),
    **_sample("camera.png", Picture()),
    **_sample("depth.png", Picture(), _GREY),
    **_sample(
        "radar.png",
        Picture(),
        {
            **_GREY,
            "its pixels hold no 2 sequences of 4 antennas": lambda image: (
                not (image.shape[0] % 2 or image.shape[1] % 8)
            ),
            "its values are not around 32768: is the byte order right?": lambda image: (
                abs(float(np.median(image)) - 32768) <= 8192
            ),
        },
    ),
    **_sample("radar.pcd", Pcd("x", "y", "z", "speed", "power", "noise", "rcs"), _NEAR),
    **_sample("lidar.pcd", Pcd("x", "y", "z"), _NEAR),
    **_sample("lidar.png", Picture(), _GREY),
    **_sample("lidar.jpeg", Picture()),
    **_sample("{kind}", Content()),
)


def describe(folder: Path) -> dict[str, object]:
    """Samples, rows, splits, classes and files."""
    (table,) = (each.kept for each in LAYOUT.kept(folder, "table")["table"])
    samples = _samples(table)
    groups = Counter(group for group, _ in samples.values())
    labels = Counter(label for label in _column(table, "label") if label is not None)
    kinds = Counter(path.name.partition(".")[2] for path in _files(folder))
    return {
        "samples": len(samples),
        "rows": table.num_rows,
        "sequences": len({name for name, _ in samples}),
        "groups": dict(sorted(groups.items())),
        "boxes": dict(sorted(labels.items())),
        "files": dict(sorted(kinds.items())),
        "archive": LAYOUT.path(folder.resolve(), "archive").is_file(),
    }


def relations(folder: Path, found: Files) -> Iterator[str]:
    """Breaches of the table's rules, and differences between table, files and archive."""
    tables = [each.kept for each in found["table"] if each.kept is not None]
    problems = [problem for table in tables for problem in _schema_problems(folder, table)]
    yield from problems
    if problems or not tables:
        return
    samples = _samples(tables[0])
    on_disk: dict[tuple[str, int | None], set[str]] = defaultdict(set)
    for kind, each in ((kind, each) for kind, files in found.items() for each in files if "frame" in each.keys):
        key: tuple[str, int | None] = str(each.keys["sequence"]), int(each.keys["frame"] or 0)
        on_disk[key].add(kind)
        size = samples.get(key, ("", None))[1]
        if kind in _CAMERAS and each.kept and size is not None and tuple(size) != each.kept:
            pixels, wanted = ("x".join(map(str, each)) for each in (each.kept, size))
            yield f"{each.path}: has {pixels} pixels, the table says {wanted}"
    named = {each.path for files in found.values() for each in files}
    for path in _files(folder):
        if path not in named:
            yield f"{path}: must be called {path.parent.name}_FRAME.{path.name.partition('.')[2]}; rename it"
    for name, number in sorted(samples.keys() ^ on_disk.keys(), key=str):
        where = "has no file" if (name, number) in samples else "is not in the table"
        yield f"{folder}: sample {name} {number} {where}"
    for (name, frame), kinds in sorted(on_disk.items(), key=str):
        if kinds.isdisjoint(_CAMERAS):
            yield f"{folder}: sample {name} {frame} has no camera picture, so that readers do not find it"
    yield from _value_problems(folder, tables[0])
    for archive in (each for each in found["archive"] if each.kept is not None):
        container = folder / folder.resolve().name
        beside = {path.relative_to(container).as_posix(): _checksum(path) for path in _files(folder)}
        if archive.kept != beside:
            name = min(archive.kept.items() ^ beside.items())[0]
            yield f"{archive.path}: does not hold what the folder holds; {name} differs; export it again"


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / folder.resolve().name).rglob("*") if path.is_file())


def _column(table: Any, name: str) -> list[Any]:
    return table.column(name).to_pylist() if name in table.column_names else [None] * table.num_rows


def _samples(table: Any) -> dict[tuple[str, int | None], tuple[str, tuple[int, ...] | None]]:
    """Name and frame of each sample -> its group, and the size of its picture."""
    rows = zip(*(_column(table, each) for each in ("name", "frame", "group", "size")), strict=True)
    return {(name, frame): (group, tuple(size) if size else None) for name, frame, group, size in rows}


def _schema_problems(folder: Path, table: Any) -> Iterator[str]:
    path = LAYOUT.path(folder.resolve(), "table")
    metadata: Mapping[bytes, bytes] = table.schema.metadata or {}
    if (version := metadata.get(b"schema_version", b"").decode(errors="replace")) not in _VERSIONS:
        yield f"{path}: schema_version is {version or 'missing'}; known are {', '.join(_VERSIONS)}"
    for name, wanted in {**COLUMNS, **_OTHERS}.items():
        if name not in table.column_names:
            if name in ("name", "group"):
                yield f"{path}: has no column {name}"
        elif (kind := type_text(table.schema.field(name).type)) not in (wanted, _ALSO.get(name)):
            yield f"{path}: column {name} is {kind}, must be {wanted}"


def _value_problems(folder: Path, table: Any) -> Iterator[str]:
    path = LAYOUT.path(folder.resolve(), "table")
    groups: dict[tuple[str, int | None], str] = {}
    for name, frame, group in zip(*(_column(table, each) for each in ("name", "frame", "group")), strict=True):
        if name is None or group is None:
            yield f"{path}: a row has no {'name' if name is None else 'group'}; every sample needs both"
            return
        if groups.setdefault((name, frame), group) != group:
            yield f"{path}: sample {name} {frame} is in {groups[name, frame]} and in {group}"
    for name, text, good in (
        ("box2d", "centre and size from 0 to 1", _inside),
        ("box3d", "extents above zero", lambda box: min(box[3:]) > 0),
        ("pose", "yaw, pitch and roll within 180 degrees", lambda pose: max(map(abs, pose)) <= 180),
    ):
        for row, value in enumerate(_column(table, name)):
            if value is not None and not good(value):
                yield f"{path}: row {row}: {name} is {[round(each, 4) for each in value]}, must be {text}"
                break


def _inside(box: list[float]) -> bool:
    """Whether a box is in the picture, but for the rounding of single precision."""
    low, high = (np.array(box[:2]) + side * np.array(box[2:]) / 2 for side in (-1, 1))
    return min(box[2:]) > 0 and low.min() >= -1e-3 and high.max() <= 1 + 1e-3


def _checksum(path: Path) -> tuple[int, int]:
    """Bytes and CRC-32 of a file, as an archive lists them."""
    size = checksum = 0
    with opened_file(path) as file:
        while part := file.read(_READ_BYTES):
            size, checksum = size + len(part), zlib.crc32(part, checksum)
    return size, checksum
