"""Import of a folder of point clouds, one file a sweep, as a roverd trace with a lidar that is points."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from imagecodecs import lzf_decode

from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import ConfigError, FormatError, naming, short
from rover_pipeline.format.files import read_bounded
from rover_pipeline.format.trace import imported_trace
from rover_pipeline.importers.ahead import worked_ahead
from rover_pipeline.importers.origin import named, write_config
from rover_pipeline.importers.points import MAX_POINTS, Cloud, PointsWriter
from rover_pipeline.importers.reference import read_poses, write_reference
from rover_pipeline.importers.times import files_of, times_of_files
from rover_pipeline.lidar.spin import Turning, share_of_turn
from rover_pipeline.numerics.jumps import EPOCH_S

# Files of one point cloud each: `.bin`, `.pcd`, `.ply`, `.npz`. What a file says of its size is never believed.

#: Bytes of a file: the largest sweep has 11 million points, of 64 bytes each at most. Schedule.
_MAX_BYTES = 1 << 30
_MAX_HEADER = 1 << 16
#: Names that sources give to what is known of a point, in small letters -> channel, and the factor to its unit there.
#: Layout.
_NAMES: dict[str, tuple[str, float]] = {
    **dict.fromkeys(("intensity", "i", "reflectivity", "reflectance", "remission"), ("intensity", 1)),
    **dict.fromkeys(("intensity_pct", "reflectivity_pct"), ("intensity", 0.01)),
    **dict.fromkeys(("ring", "line", "channel", "laser_id", "beam"), ("ring", 1)),
    **dict.fromkeys(("time", "t", "timestamp", "time_stamp", "point_time"), ("time", 1)),
    **dict.fromkeys(("time_ns", "t_ns", "offset_time"), ("time", 1e-9)),
    **dict.fromkeys(("time_us", "timestamp_us"), ("time", 1e-6)),
    "scalar_intensity": ("intensity", 1),
}
#: Types of PCD files. Layout.
_PCD_TYPES = {("F", 4): "<f4", ("F", 8): "<f8"} | {
    (kind, size): f"<{kind.lower()}{size}" for kind in ("I", "U") for size in (1, 2, 4, 8)
}
_PLY_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "float": "f4",
    "double": "f8", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4",
    "float32": "f4", "float64": "f8",
}  # fmt: skip
#: What damaged files make their readers raise.
_DAMAGED = (
    ValueError, LookupError, TypeError, OSError, ArithmeticError, MemoryError, EOFError, NotImplementedError,
    RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
#: LZF makes at most 264 bytes from three. Layout.
_LZF_RATIO = 88
Columns = Mapping[str, np.ndarray]


def read_cloud(path: Path, fields: Sequence[str] = ()) -> Cloud:
    """The points of a file of one of the `READERS`. Times are in s as the file has them: after any instant, or since
    1970. `fields` are names of the f4 columns of a `.bin` file; x, y, z and intensity unless given. Raises FormatError
    where the file cannot be read, is not what it says, or has no points."""
    reader = READERS[path.suffix.lower()]
    with naming(f"{path}: is no whole {path.suffix[1:]} file", *_DAMAGED, limit=200), naming(path, FileNotFoundError):
        return cloud_of(reader(path, fields))


def cloud_of(columns: Columns) -> Cloud:
    """The points of columns by the names that sources give them. Raises ValueError where there are no coordinates, or
    columns have different lengths."""
    found: dict[str, Any] = {}
    for name, values in columns.items():
        channel, factor = _NAMES.get(name.lower(), ("", 1))
        if channel and channel not in found:
            is_whole_time = channel == "time" and factor == 1 and values.dtype.kind in "iu"
            scale = 1e-9 if is_whole_time else factor  # whole numbers of seconds are no times of points
            found[channel] = values * scale if scale != 1 else values
    lower = {name.lower(): values for name, values in columns.items()}
    if {"x", "y", "z"} <= lower.keys():
        found["xyz"] = np.stack([np.asarray(lower[axis], "f4") for axis in "xyz"], -1)
    else:
        listed = ", ".join(columns) or "none"
        raise ValueError(f"it has no coordinates x, y and z; its fields are {listed}")
    cloud = Cloud(**found)
    count = len(cloud.xyz)
    if count > MAX_POINTS or any(each is not None and each.shape[:1] != (count,) for each in cloud):
        raise ValueError(f"its columns have different lengths, or more than {MAX_POINTS:,} points")
    if cloud.ring is not None:
        cloud = cloud._replace(ring=np.clip(np.nan_to_num(cloud.ring), 0, 65535).astype("u2"))
    return cloud


def _bin(path: Path, fields: Sequence[str]) -> Columns:
    data = read_bounded(path, _MAX_BYTES, "any sweep")
    names = list(fields) or ["x", "y", "z", "intensity"]
    if not data or len(data) % (4 * len(names)):
        hint = "give --fields" if not fields else "look at --fields"
        raise FormatError(
            f"{path}: {len(data):,} bytes are no whole points of {len(names)} f4 ({', '.join(names)}); {hint}"
        )
    table = np.frombuffer(data, "<f4").reshape(-1, len(names))
    return {name: table[:, number] for number, name in enumerate(names)}


def _npz(path: Path, fields: Sequence[str]) -> Columns:
    data = io.BytesIO(read_bounded(path, _MAX_BYTES, "any sweep"))
    with zipfile.ZipFile(data) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > _MAX_BYTES:
            raise FormatError(f"{path}: unpacks to more than {_MAX_BYTES:,} bytes; no sweep does")
    with np.load(data, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    columns: dict[str, np.ndarray] = {}
    for name, values in arrays.items():
        scale = 0.001 if name.endswith("_mm") else 1.0
        if values.ndim == 2 and values.shape[1] >= 3 and name.lower().startswith(("xyz", "points", "pc", "data")):
            columns |= {axis: (values[:, number] * scale).astype("f4") for number, axis in enumerate("xyz")}
            if values.shape[1] > 3:
                columns["intensity"] = values[:, 3]
        elif values.ndim == 1:
            columns[name] = values
    return columns


def _pcd(path: Path, fields: Sequence[str]) -> Columns:
    data = read_bounded(path, _MAX_BYTES, "any sweep")
    last = re.search(rb"^[ \t]*DATA\b.*\n", data[:_MAX_HEADER], re.MULTILINE | re.IGNORECASE)
    if last is None:
        raise ValueError("its header has no line DATA")
    lines = map(str.split, data[: last.end()].decode("ascii").split("\n"))
    header = {words[0].upper(): words[1:] for words in lines if words and not words[0].startswith("#")}
    names = header["FIELDS"]
    counts = [int(each) for each in header.get("COUNT", ["1"] * len(names))]
    kinds = [_PCD_TYPES[kind, int(size)] for kind, size in zip(header["TYPE"], header["SIZE"], strict=True)]
    if not len(names) == len(counts) == len(kinds) or min(counts) < 1 or max(counts) > 1024:
        raise ValueError("FIELDS, SIZE, TYPE and COUNT of its header have different lengths")
    points = int(header["POINTS"][0]) if "POINTS" in header else int(header["WIDTH"][0]) * int(header["HEIGHT"][0])
    if not 0 <= points <= MAX_POINTS:
        raise ValueError(f"its header says {points:,} points")
    row = [(f"{number}", kind, (count,)) for number, (kind, count) in enumerate(zip(kinds, counts, strict=True))]
    body = memoryview(data)[last.end() :]
    encoding = header["DATA"][0]
    if encoding == "ascii":
        table = _numbers(bytes(body), points, sum(counts))
        first = np.cumsum([0, *counts[:-1]])
        columns = {name: table[:, at] for name, at in zip(names, first, strict=True)}
    elif encoding == "binary":
        rows = np.frombuffer(body, np.dtype(row), points)
        columns = {name: rows[f"{number}"][:, 0] for number, name in enumerate(names)}
    elif encoding == "binary_compressed":
        columns = _compressed(body, names, kinds, counts, points)
    else:
        raise ValueError(f"DATA {short(encoding)} is none of ascii, binary and binary_compressed")
    # Padding is called `_`, and one of several columns of that name says nothing.
    return {name: values for name, values in columns.items() if name != "_"}


def _compressed(
    body: memoryview, names: Sequence[str], kinds: Sequence[str], counts: Sequence[int], points: int
) -> dict[str, np.ndarray]:
    """Columns that stand one after the other, compressed by LZF."""
    packed, unpacked = np.frombuffer(body[:8], "<u4").tolist()
    sizes = [np.dtype(kind).itemsize * count * points for kind, count in zip(kinds, counts, strict=True)]
    if unpacked != sum(sizes) or packed > len(body) - 8 or unpacked > _LZF_RATIO * packed:
        raise ValueError(f"its compressed part says {unpacked:,} bytes where its points have {sum(sizes):,}")
    with naming("its compressed part is damaged", RuntimeError, made=ValueError):
        plain = lzf_decode(bytes(body[8 : 8 + packed]), out=bytearray(unpacked)) if unpacked else b""
    if len(plain) != unpacked:
        raise ValueError("its compressed part is damaged")
    starts = np.cumsum([0, *sizes])
    return {
        name: np.frombuffer(plain[begin : begin + size], kind).reshape(points, count)[:, 0]
        for name, kind, count, begin, size in zip(names, kinds, counts, starts, sizes, strict=False)
    }


def _ply(path: Path, fields: Sequence[str]) -> Columns:
    data = read_bounded(path, _MAX_BYTES, "any sweep")
    end = data.find(b"end_header", 0, _MAX_HEADER)
    line_end = data.find(b"\n", max(end, 0))
    if not data.startswith(b"ply") or end < 0 or line_end < 0:
        raise ValueError("it does not begin with the header of a PLY file")
    encoding, points, row, element = "", 0, [], ""
    for words in (line.split() for line in data[:end].decode("ascii").splitlines()):
        if words[:1] == ["format"]:
            encoding = words[1]
        elif words[:1] == ["element"]:
            element, before = words[1], element
            if element == "vertex":
                points = int(words[2])
                if before:
                    raise ValueError(f"its vertices come after {short(before)}; only those that come first are read")
        elif words[:1] == ["property"] and element == "vertex":
            if words[1] == "list":
                raise ValueError("its vertices have lists, which a point has not")
            row.append((words[2], _PLY_TYPES[words[1]]))
    if not 0 <= points <= MAX_POINTS or not row:
        raise ValueError(f"its header says {points:,} vertices of {len(row)} properties")
    body = memoryview(data)[line_end + 1 :]
    if encoding == "ascii":
        table = _numbers(bytes(body), points, len(row))
        return {name: table[:, number] for number, (name, _) in enumerate(row)}
    order = {"binary_little_endian": "<", "binary_big_endian": ">"}[encoding]
    rows = np.frombuffer(body, np.dtype([(name, order + kind) for name, kind in row]), points)
    return {name: rows[name] for name, _ in row}


def _numbers(text: bytes, rows: int, columns: int) -> np.ndarray:
    """Numbers of a text, f8 (row, column): as many as there must be at least."""
    if len(text) < 2 * rows * columns - 1:
        raise ValueError(f"it ends before its {rows:,} points")
    words = text.split(None, rows * columns)[: rows * columns]
    if len(words) != rows * columns:
        raise ValueError(f"it has {len(words):,} numbers where its points have {rows * columns:,}")
    return np.asarray(words, "S").astype("f8").reshape(rows, columns)


READERS: dict[str, Callable[[Path, Sequence[str]], Columns]] = {".bin": _bin, ".npz": _npz, ".pcd": _pcd, ".ply": _ply}


def steady_turns(ts: np.ndarray) -> np.ndarray:
    """Turns of the beams from behind to behind, as long as the median time between sweeps: begin and end of each, f8
    (sweep, 2), s after the instant at which the beams look ahead; the first is negative."""
    half = float(np.median(np.diff(ts))) / 2 if len(ts) > 1 else 0.05
    return np.tile([-half, half], (len(ts), 1))


def dated(cloud: Cloud, turn: np.ndarray, turning: Turning) -> Cloud:
    """The cloud with the instant of each point, after the one at which the beams look ahead. See `steady_turns`. Raises
    ConfigError where its points have times."""
    if cloud.time is not None:
        raise ConfigError("--turning: the points have times of their own; leave it out")
    share = share_of_turn(cloud.xyz, turning)
    return cloud._replace(time=2 * share * np.where(share < 0, -turn[0], turn[1]))


def raised(cloud: Cloud, degrees: float) -> Cloud:
    """The cloud with every point at a larger elevation, at the same azimuth and distance from the origin."""
    if not degrees:
        return cloud
    xyz, angle = np.asarray(cloud.xyz, "f8"), np.radians(degrees)
    level = np.hypot(xyz[:, 0], xyz[:, 1])
    shrunk = np.cos(angle) - np.sin(angle) * xyz[:, 2] / np.where(level > 0, level, np.inf)
    height = np.cos(angle) * xyz[:, 2] + np.sin(angle) * level
    return cloud._replace(xyz=np.column_stack([xyz[:, :2] * shrunk[:, None], height]))


def import_clouds(
    folder: Path,
    out: Path,
    *,
    times: Path | None = None,
    rate: float | None = None,
    start: float | None = None,
    poses: Path | None = None,
    fields: Sequence[str] = (),
    compensated: bool = False,
    turning: Turning | None = None,
    compress: bool = False,
    name: str | None = None,
) -> int:
    """Write the trace `out` from a folder of `.bin`, `.pcd`, `.ply` or `.npz` files, and return the number of sweeps.

    The arguments are those of the command, as `table.py` describes them. The time stamp of a sweep is that of its last
    point where the files say when each point was measured, otherwise what the list, the rate or the names of the files
    say (`times_of_files`). Compensated clouds are as seen at that time. Raises FormatError where a file cannot be read,
    or there are none, and ConfigError where nothing gives the times, points that have times are to be dated, or the
    name is none of a lidar.
    """
    if turning and compensated:
        raise ConfigError("--turning dates points whose motion is not undone: leave it or --compensated out")
    sensor = named(name, "lidar")
    files = cloud_files(folder)
    stamps, source, shift, warned = times_of_files(files, times, rate, start)
    notes = [f"times of sweeps are by {source}", *warned]
    options = {"rate": rate, "start": start, "fields": list(fields), "compensated": compensated, "turning": turning}
    spans = dict(zip(files, steady_turns(stamps), strict=True))

    def read(path: Path) -> Cloud:
        cloud = read_cloud(path, fields)
        return dated(cloud, spans[path], turning) if turning else cloud

    with imported_trace(out) as trace:
        described = f"import clouds {folder.name}, times by {source}"
        notes += write_sweeps(
            trace / sensor, files, stamps, read=read, compensated=compensated, compress=compress, source=described
        )
        if poses is not None:
            ts, states = read_poses(poses, stamps)
            # Poses are moved with the sweeps where both count from the beginning of the recording.
            ts = ts if ts is stamps or len(ts) == 0 or ts[0] > stamps[0] / 2 else ts + shift
            write_reference(trace, ts, states, command="import clouds", source=poses.name)
        write_config(
            trace,
            {sensor: {"type": "lidar"}},
            command="import clouds",
            sources=[folder, *(each for each in (times, poses) if each)],
            options={name: value for name, value in options.items() if value},
            notes=notes,
            said_of=folder,
        )
    return len(files)


def cloud_files(folder: Path) -> list[Path]:
    """The clouds of a folder, of one format, in the order of their names. Raises FormatError where there is no such
    folder, it has none, or those of several formats."""
    found = files_of(folder, sorted(READERS), "point clouds")
    kinds = sorted({path.suffix.lower() for path in found})
    if len(kinds) > 1:
        raise FormatError(f"{folder}: holds {' and '.join(kinds)} files; move those away that are not the sweeps")
    return found


def write_sweeps(
    lidar: Path,
    files: Sequence[Path],
    stamps: np.ndarray,
    *,
    read: Callable[[Path], Cloud],
    compensated: bool,
    compress: bool,
    source: str,
) -> list[str]:
    """Write the sensor `lidar`, a sweep for each file at increasing times `stamps`, f8 (file,), s, and return what the
    user should know of it."""
    with progress(source, len(files), "sweep") as advance:
        # Points that are no returns are left out by the threads that read: it takes as long as reading.
        clouds = worked_ahead(lambda path: read(path).returns(), files)
        timed, instant = False, "the instant of the cloud"
        with PointsWriter(lidar, source, instant=instant, compensated=compensated, compress=compress) as writer:
            for stamp, (_, cloud) in zip(stamps.tolist(), clouds, strict=True):
                timed, after = cloud.time is not None if not writer.count else timed, 0.0
                if timed and compensated:
                    raise ConfigError(
                        "--compensated: the points have times of their own, so they are not; leave it out"
                    )
                if timed:
                    cloud, after = _after(cloud, stamp).to_end()
                writer.append(stamp + after, cloud)
                advance(1)
    if timed or compensated:
        return []
    return [
        "the points have no times, and nothing says that motion within sweeps is undone: they are taken as measured at "
        "one instant (--compensated says that it is undone, --turning "
        "dates the points of a lidar that spins by their azimuth)"
    ]


def _after(cloud: Cloud, stamp: float) -> Cloud:
    """The cloud with times after a stamp, where they were since 1970."""
    if cloud.time is None or not (np.abs(np.nan_to_num(cloud.time)) > EPOCH_S[0]).any():
        return cloud
    return cloud._replace(time=np.asarray(cloud.time, "f8") - stamp)
