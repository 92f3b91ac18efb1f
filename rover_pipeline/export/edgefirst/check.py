"""Reads an EdgeFirst dataset back: what it holds, and whether it follows the format's rules."""

from __future__ import annotations

import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.export.edgefirst.table import arrow, read_table
from rover_pipeline.format.files import opened_file, read_bounded

#: Columns that a table must have, by the names that pyarrow gives their types; several are accepted.
_REQUIRED = {"name": ("string", "large_string"), "group": ("dictionary",)}
_TYPES = {
    "frame": ("uint32", "uint64"),
    "object_id": ("string", "large_string"),
    "label": ("dictionary", "string", "large_string"),
    "label_index": ("uint64",),
    "box2d": ("fixed_size_list[4] of float",),
    "box3d": ("fixed_size_list[6] of float",),
    "size": ("fixed_size_list[2] of uint32",),
    "pose": ("fixed_size_list[3] of float",),
    "location": ("fixed_size_list[2] of float",),
}
_VERSIONS = ("2026.04", "2026.10")
#: No picture and no cloud of a sample is larger, bytes.
_MAX_FILE = 1 << 30
_READ_BYTES = 1 << 20
_RADAR_FIELDS = ("x", "y", "z", "speed", "power", "noise", "rcs")
#: Further than any radar or lidar sees, m. Values in another byte order are beyond it, or denormal.
_MAX_DISTANCE = 1000.0


def describe(folder: Path) -> dict[str, object]:
    """Samples, rows, splits, classes and files."""
    table = _table(folder)
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
        "archive": (folder / f"{_name(folder)}.zip").is_file(),
    }


def problems(folder: Path) -> Iterator[str]:
    """Breaches of the format's rules: of the table, of its files, of each file, and of the archive."""
    table = _table(folder)
    found = list(_schema_problems(folder, table))
    yield from found
    if found:
        return
    samples = _samples(table)
    on_disk: dict[tuple[str, int | None], set[str]] = defaultdict(set)
    for path in _files(folder):
        stem, _, kind = path.name.partition(".")
        name, _, frame = stem.rpartition("_")
        if name != path.parent.name or not frame.isdigit():
            yield f"{path}: must be called {path.parent.name}_FRAME.{kind}; rename it"
            continue
        on_disk[name, int(frame)].add(kind)
    for name, number in sorted(samples.keys() ^ on_disk.keys(), key=str):
        where = "has no file" if (name, number) in samples else "is not in the table"
        yield f"{folder}: sample {name} {number} {where}; export it again"
    for key, kinds in sorted(on_disk.items(), key=str):
        if not kinds & {"camera.jpeg", "camera.png"}:
            yield f"{folder}: sample {key[0]} {key[1]} has no camera picture, so that readers do not find it"
    yield from _value_problems(folder, table)
    sizes = {key: size for key, (_, size) in samples.items()}
    for path in _files(folder):
        yield from _file_problems(path, sizes)
    yield from _archive_problems(folder)


def _name(folder: Path) -> str:
    return folder.resolve().name


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / _name(folder)).rglob("*") if path.is_file())


def _table(folder: Path) -> Any:
    path = folder / f"{_name(folder)}.arrow"
    try:
        return read_table(path)
    except (OSError, arrow().ArrowException) as error:
        raise FormatError(f"{path}: is no Arrow file: {error}; the table must be called like its folder") from error


def _column(table: Any, name: str) -> list[Any]:
    return table.column(name).to_pylist() if name in table.column_names else [None] * table.num_rows


def _samples(table: Any) -> dict[tuple[str, int | None], tuple[str, tuple[int, ...] | None]]:
    """Name and frame of each sample -> its group, and the size of its picture."""
    rows = zip(*(_column(table, each) for each in ("name", "frame", "group", "size")), strict=True)
    return {(name, frame): (group, tuple(size) if size else None) for name, frame, group, size in rows}


def _kind(type: Any) -> str:
    """What a type of Arrow is, in short."""
    types = arrow().types
    if types.is_dictionary(type):
        return "dictionary"
    if types.is_fixed_size_list(type):
        return f"fixed_size_list[{type.list_size}] of {type.value_type}"
    return str(type)


def _schema_problems(folder: Path, table: Any) -> Iterator[str]:
    path = folder / f"{_name(folder)}.arrow"
    metadata: Mapping[bytes, bytes] = table.schema.metadata or {}
    if (version := metadata.get(b"schema_version", b"").decode(errors="replace")) not in _VERSIONS:
        yield f"{path}: schema_version is {version or 'missing'}; known are {', '.join(_VERSIONS)}"
    for name in _REQUIRED:
        if name not in table.column_names:
            yield f"{path}: has no column {name}; export it again"
    for name, known in {**_REQUIRED, **_TYPES}.items():
        if name in table.column_names and (kind := _kind(table.schema.field(name).type)) not in known:
            yield f"{path}: column {name} is {kind}, must be {known[0]}; export it again"


def _value_problems(folder: Path, table: Any) -> Iterator[str]:
    path = folder / f"{_name(folder)}.arrow"
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
    x, y, width, height = box
    low, high = -1e-3, 1 + 1e-3
    return (
        min(width, height) > 0
        and min(x - width / 2, y - height / 2) >= low
        and max(x + width / 2, y + height / 2) <= high
    )


def _file_problems(path: Path, sizes: Mapping[tuple[str, int | None], tuple[int, ...] | None]) -> Iterator[str]:
    stem, _, kind = path.name.partition(".")
    data = read_bounded(path, _MAX_FILE, "a file of a sample")
    if kind.endswith("pcd"):
        yield from _cloud_problems(path, data, _RADAR_FIELDS if kind == "radar.pcd" else ("x", "y", "z"))
        return
    image = cv2.imdecode(np.frombuffer(data, "u1"), cv2.IMREAD_UNCHANGED) if data else None
    if image is None:
        yield f"{path}: is no picture; export it again"
    elif kind in ("depth.png", "lidar.png", "radar.png") and (image.dtype != np.uint16 or image.ndim != 2):
        yield f"{path}: must be greyscale of 16 bits, is {image.dtype} of {list(image.shape)}"
    elif kind == "radar.png" and (image.shape[0] % 2 or image.shape[1] % 8):
        yield f"{path}: {image.shape[1]}x{image.shape[0]} pixels hold no 2 sequences of 4 antennas"
    elif kind == "radar.png" and abs(float(np.median(image)) - 32768) > 8192:
        yield f"{path}: its values are not around 32768: is the byte order right?"
    elif kind == "camera.jpeg":
        name, _, frame = stem.rpartition("_")
        size = sizes.get((name, int(frame))) if frame.isdigit() else None
        if size is not None and tuple(size) != (image.shape[1], image.shape[0]):
            yield f"{path}: has {image.shape[1]}x{image.shape[0]} pixels, the table says {size[0]}x{size[1]}"


def _cloud_problems(path: Path, data: bytes, required: tuple[str, ...]) -> Iterator[str]:
    cloud = read_cloud(data)
    if cloud is None:
        yield f"{path}: is no binary PCD of f4 fields; export it again"
        return
    if tuple(cloud)[: len(required)] != required:
        yield f"{path}: its fields are {' '.join(cloud)}, must begin with {' '.join(required)}"
        return
    values = np.stack(list(cloud.values()))
    if not np.isfinite(values).all():
        yield f"{path}: holds values that are not finite, which readers fail on"
    elif values.shape[1] and (np.abs(values[:3]).max() > _MAX_DISTANCE or np.abs(values[:3]).max() < 1e-6):
        yield f"{path}: its points are further than {_MAX_DISTANCE:g} m away, or all at zero: is the byte order right?"


def read_cloud(data: bytes) -> dict[str, np.ndarray] | None:
    """The fields of a binary PCD with f4 fields alone; None when it is something else."""
    header, mark, body = data.partition(b"DATA binary\n")
    lines = dict(line.split(" ", 1) for line in header.decode("ascii", "replace").splitlines() if " " in line)
    fields = lines.get("FIELDS", "").split()
    if not mark or set(lines.get("SIZE", "").split()) != {"4"} or set(lines.get("TYPE", "").split()) != {"F"}:
        return None
    if not lines.get("POINTS", "").isdigit() or len(body) != 4 * len(fields) * int(lines["POINTS"]):
        return None
    table = np.frombuffer(body, "<f4").reshape(-1, len(fields))
    return dict(zip(fields, table.T, strict=True))


def _archive_problems(folder: Path) -> Iterator[str]:
    path, container = folder / f"{_name(folder)}.zip", folder / _name(folder)
    if not path.is_file():
        return
    try:
        with opened_file(path) as file, zipfile.ZipFile(file) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            inside = {entry.filename: (entry.file_size, entry.CRC) for entry in entries}
            bad = archive.testzip()
    except (zipfile.BadZipFile, OSError) as error:
        yield f"{path}: is no whole archive: {error}; export it again"
        return
    beside = {each.relative_to(container).as_posix(): _checksum(each) for each in _files(folder)}
    if bad:
        yield f"{path}: {bad} is damaged; export it again"
    if inside != beside:
        name = min(inside.items() ^ beside.items())[0]
        yield f"{path}: does not hold what the folder holds; {name} differs; export it again"


def _checksum(path: Path) -> tuple[int, int]:
    """Bytes and CRC-32 of a file, as an archive lists them."""
    size = checksum = 0
    with opened_file(path) as file:
        while part := file.read(_READ_BYTES):
            size, checksum = size + len(part), zlib.crc32(part, checksum)
    return size, checksum
