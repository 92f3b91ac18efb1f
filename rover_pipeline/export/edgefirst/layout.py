"""The files of an EdgeFirst dataset, and the rules that they keep alone and together."""

from __future__ import annotations

import json
import struct
import uuid
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from PIL.ExifTags import IFD, Base

from rover_pipeline.datasets.splits import SHORT_SPLITS
from rover_pipeline.errors import naming
from rover_pipeline.export.contents import Content, Json
from rover_pipeline.export.layout import File, Files, Layout
from rover_pipeline.export.pictures import Pcd, Picture
from rover_pipeline.format.files import opened_file
from rover_pipeline.lookup import optional
from rover_pipeline.validation.rig import is_plausible

# Files of EdgeFirst samples, as bytes, and the Arrow table: a row for each box, and one for a sample without any.

#: Version of the format's text that the table follows. The client reads it, and its `Binary` masks, as it is.
SCHEMA = "2026.04"
#: Columns of the table: types by their names in Arrow, `[N]` of them, or one of a few texts. `box2d` is centre and size
#: in the picture, 0 to 1; `box3d` centre and extents along x, y and z of the lidar, m; `pose` yaw, pitch, roll of the
#: lidar in the world, degrees. Layout.
COLUMNS = {
    "name": "string",
    "frame": "uint32",
    "object_id": "string",
    "label": "category",
    "label_index": "uint64",
    "group": "category",
    "box2d": "float[4]",
    "box3d": "float[6]",
    "size": "uint32[2]",
    "pose": "float[3]",
    "timestamp": "double",
}
_BATCH = 4096  # Schedule.
#: Names of tracks are made from it and from the recording, so that they are the same in every export.
_TRACKS = uuid.UUID("6f1f5b0e-6a55-4d1e-9a53-0e2f6f1f7d11")


def track_id(recording: str, track: int) -> str:
    """The name of a track, unique among all datasets."""
    return str(uuid.uuid5(_TRACKS, f"{recording}/{track}"))


def write_table(path: Path, rows: Iterable[dict[str, Any]], classes: Sequence[str], about: Mapping[str, Any]) -> None:
    """Write the table in batches, so that memory stays small. Raises MissingExtraError where pyarrow is not installed.

    Args:
        rows: the values of a box, or of a sample without one, by column. What is absent is null.
        classes: names of all classes, in the order of `label_index`.
        about: what a reader must know of the files; it goes to the key `rover_pipeline` of the schema.
    """
    pa = arrow()
    texts = {"label": [*classes], "group": [*SHORT_SPLITS]}
    dictionaries = {name: pa.array(each, pa.string()) for name, each in texts.items()}
    metadata = {
        "schema_version": SCHEMA,
        "labels": json.dumps(list(classes)),
        "category_metadata": json.dumps({name: {"id": number} for number, name in enumerate(classes)}),
        "rover_pipeline": json.dumps(about),
    }
    schema = pa.schema([pa.field(name, _type(kind)) for name, kind in COLUMNS.items()], metadata)
    source = iter(rows)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        while batch := list(islice(source, _BATCH)):
            arrays = []
            for name, kind in COLUMNS.items():
                values = [row.get(name) for row in batch]
                if name in texts:  # all batches of a file must share a dictionary
                    indices = [None if value is None else texts[name].index(value) for value in values]
                    arrays.append(pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), dictionaries[name]))
                else:
                    arrays.append(pa.array(values, _type(kind)))
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def _type(text: str) -> Any:
    """The type of Arrow that a text of `COLUMNS` stands for."""
    pa = arrow()
    if text == "category":
        return pa.dictionary(pa.int32(), pa.string())
    name, _, size = text.removesuffix("]").partition("[")
    return pa.list_(pa.type_for_alias(name), int(size)) if size else pa.type_for_alias(name)


def type_text(type: Any) -> str:
    """What a type of Arrow is, in the words of `COLUMNS`."""
    types = arrow().types
    if types.is_dictionary(type):
        return "category"
    if types.is_fixed_size_list(type):
        return f"{type.value_type}[{type.list_size}]"
    return str(type).removeprefix("large_")


def arrow() -> Any:
    """pyarrow. Raises MissingExtraError when it is not installed."""
    return optional("pyarrow", "export edgefirst", "edgefirst")


def with_exif(jpeg: bytes, time: float, description: str) -> bytes:
    """A JPEG with its time, s since the epoch, in EXIF, in UTC with microseconds, and a description in ASCII. Its
    picture is not encoded anew. (CIPA DC-008, Exif 2.32: APP1 comes right after SOI.)"""
    when = datetime.fromtimestamp(time, UTC)
    stamp = when.strftime("%Y:%m:%d %H:%M:%S")
    taken = {Base.DateTimeOriginal: stamp, Base.OffsetTimeOriginal: "+00:00"}
    taken[Base.SubsecTimeOriginal] = f"{when.microsecond:06d}"
    exif = Image.Exif()
    exif.endian = "<"
    exif.update({Base.ImageDescription: description, Base.Software: "rover_pipeline", Base.DateTime: stamp})
    exif[IFD.Exif] = taken
    segment = exif.tobytes()
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + jpeg[2:]


#: Other types of columns that readers take, and a column of other programs.
_ALSO = {"frame": "uint64", "label": "string"}
_OTHERS = {"location": "float[2]"}
_VERSIONS = ("2026.04", "2026.10")
_CAMERAS = ("camera.jpeg", "camera.png")


class _Table(Content):
    """The Arrow table, by pyarrow."""

    def read(self, path: Path) -> Any:
        pa = arrow()
        with (
            naming("is no Arrow file", pa.ArrowException, made=ValueError, remedy="; export it again"),
            pa.OSFile(str(path)) as file,  # a mapped file that somebody cuts off would end the process
        ):
            return pa.ipc.open_file(file).read_all()


class _Archive(Content):
    """Bytes and CRC-32 of each file of a ZIP."""

    def read(self, path: Path) -> dict[str, tuple[int, int]]:
        wrong = naming("is no whole archive", zipfile.BadZipFile, made=ValueError)
        with wrong, opened_file(path) as file, zipfile.ZipFile(file) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            bad = archive.testzip()
        if bad:
            raise ValueError(f"{bad} is damaged")
        return {entry.filename: (entry.file_size, entry.CRC) for entry in entries}


def _sample(kind: str, content: Content, rules: Mapping[str, Any] | None = None) -> dict[str, File]:
    """The files of one kind of the samples, of which the size of pictures is kept."""
    path = "{dataset}/{sequence}/{sequence}_{frame:03d}." + kind
    return {kind: File(path, content, rules or {}, True, lambda value: getattr(value, "shape", ())[1::-1])}


def _is_near(cloud: Mapping[str, np.ndarray]) -> bool:
    xyz = np.abs([cloud[axis] for axis in "xyz"])
    return not xyz.size or bool(xyz.max() >= 1e-6 and is_plausible(xyz).all())


#: What a picture of depth or of a cube must be. Layout.
_GREY = {"must be greyscale of 16 bits": lambda image: image.dtype == np.uint16 and image.ndim == 2}
#: Values in another byte order are too large, or denormal.
_NEAR = {"its points are where nothing is, or all at zero: is the byte order right?": _is_near}
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
            "its pixels hold no 2 sequences of 4 antennas": lambda cube: not (cube.shape[0] % 2 or cube.shape[1] % 8),
            "its values are not around 32768: is the byte order right?": lambda cube: (
                abs(float(np.median(cube)) - 32768) <= 8192
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
    data = Content().read(path)
    return len(data), zlib.crc32(data)
