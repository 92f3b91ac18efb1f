"""How the contents of files of datasets are stored: what a format's layout declares."""

from __future__ import annotations

import csv
import io
import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from rover_pipeline.errors import FormatError, naming
from rover_pipeline.format.files import read_bounded
from rover_pipeline.format.texts import parse_json

#: Bytes of a file that may be read whole: a sweep has some megabytes, the poses of ten hours as text 60. Schedule.
MAX_BYTES = 1 << 27


class Content:
    """How the content of a file is stored; here: as bytes. Formats declare subclasses for what this module lacks."""

    def encode(self, value: Any) -> bytes:
        """The bytes of a file."""
        return bytes(value)

    def decode(self, data: bytes) -> Any:
        """What the bytes of a file hold. Raises ValueError, which says what is wrong with them."""
        return data

    def read(self, path: Path) -> Any:
        """What a file holds. Raises ValueError, OSError, FormatError."""
        return self.decode(read_bounded(path, MAX_BYTES, "any file of a dataset"))


class Records(Content):
    """Binary rows of one type, without a header. `fields`: name, type and, if a row has several values of it, their
    shape: `("xyz", "<f4", (3,))`."""

    def __init__(self, *fields: tuple[str, str] | tuple[str, str, tuple[int, ...]]) -> None:
        self.dtype = np.dtype([*fields])

    def encode(self, value: Mapping[str, np.ndarray]) -> bytes:
        """`value`: name -> (row, ...)."""
        rows = np.empty(len(next(iter(value.values()))), self.dtype)
        for name, column in value.items():
            rows[name] = column
        return rows.tobytes()

    def decode(self, data: bytes) -> np.ndarray:
        size = self.dtype.itemsize
        if len(data) % size:
            raise ValueError(f"has {len(data)} bytes, which is no multiple of the {size} of a row")
        rows = np.frombuffer(data, self.dtype)
        for name in self.dtype.names or ():
            if rows[name].dtype.kind == "f" and not np.isfinite(rows[name]).all():
                raise ValueError(f"holds values of {name} that are not finite: is the byte order right?")
        return rows


class Numbers(Content):
    """Text with a row of so many finite numbers in each line, written in a format such as `%.9f`."""

    def __init__(self, columns: int, format: str) -> None:
        self.columns, self.format = columns, format

    def encode(self, value: np.ndarray) -> bytes:
        """`value`: (row, column)."""
        file = io.BytesIO()
        np.savetxt(file, value, fmt=self.format)
        return file.getvalue()

    def decode(self, data: bytes) -> np.ndarray:
        lines = data.decode("utf-8", "replace").splitlines()
        try:
            rows = np.loadtxt(lines, ndmin=2) if lines else np.empty((0, self.columns))
        except ValueError:
            rows = np.empty((0, 0))
        if rows.shape[1] != self.columns or not np.isfinite(rows).all():
            raise ValueError(f"must hold {self.columns} finite numbers in each line")
        return np.asarray(rows)


class Table(Content):
    """Comma-separated columns of numbers below a line with their names. Further columns are allowed. `columns`: name ->
    format of its numbers, such as `.9f`, or `d` for whole ones."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self.columns = columns

    def encode(self, value: Mapping[str, np.ndarray]) -> bytes:
        """`value`: name of each column -> (row,)."""
        columns = [[format(each, form) for each in value[name].tolist()] for name, form in self.columns.items()]
        rows = [",".join(self.columns), *(",".join(row) for row in zip(*columns, strict=True))]
        return "".join(f"{row}\n" for row in rows).encode()

    def decode(self, data: bytes) -> dict[str, np.ndarray]:
        rows = csv.DictReader(io.StringIO(data.decode("utf-8", "replace"), newline=""))
        if lacking := sorted(self.columns.keys() - set(rows.fieldnames or ())):
            raise ValueError(f"has no column {lacking[0]}")
        found: dict[str, list[float]] = {name: [] for name in self.columns}
        for number, row in enumerate(rows, 2):
            for name, form in self.columns.items():
                try:
                    found[name].append(int(row[name]) if form == "d" else float(row[name]))
                except (TypeError, ValueError) as error:
                    raise ValueError(f"line {number} holds no number in the column {name}") from error
        return {name: np.array(column, "i8" if self.columns[name] == "d" else "f8") for name, column in found.items()}


class Arrays(Content):
    """Named arrays, as NumPy's `.npz`. Further arrays are allowed, and objects are refused: they could run code.
    `arrays`: name -> kinds that its values may have (`f`, `ui`, `b` ...) and its shape, of numbers and of names. What
    has a name has any length, the same in all arrays."""

    def __init__(self, **arrays: tuple[Any, ...]) -> None:
        self.arrays = arrays

    def encode(self, value: Mapping[str, Any]) -> bytes:
        file = io.BytesIO()
        np.savez(file, **value)
        return file.getvalue()

    def decode(self, data: bytes) -> dict[str, np.ndarray]:
        kinds = (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error, NotImplementedError)
        wrong = naming("is no npz of arrays", *kinds, made=ValueError)
        with wrong, np.load(io.BytesIO(data), allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
        lengths: dict[str | int, int] = {}
        for name, (kind, *shape) in self.arrays.items():
            if name not in found:
                raise ValueError(f"has no array {name}")
            array = found[name]
            wanted = [lengths.setdefault(size, length) if isinstance(size, str) else size
                      for size, length in zip(shape, array.shape, strict=False)]  # fmt: skip
            if array.dtype.kind not in kind or list(array.shape) != wanted or len(shape) != array.ndim:
                raise ValueError(f"{name} must be {kind} {shape}, is {array.dtype} {list(array.shape)}")
            if kind == "f" and not np.isfinite(array).all():
                raise ValueError(f"{name} holds values that are not finite")
        return found


class Json(Content):
    """A JSON object. `keys`: that it must have; `indent`, `sort`, `end`: how it is written."""

    def __init__(self, *keys: str, indent: int | None = 2, sort: bool = False, end: str = "\n") -> None:
        self.keys, self._style, self._end = keys, {"indent": indent, "sort_keys": sort}, end

    def encode(self, value: Mapping[str, Any]) -> bytes:
        return (json.dumps(value, **self._style) + self._end).encode()  # type: ignore[arg-type]

    def decode(self, data: bytes) -> dict[str, Any]:
        try:
            content = parse_json(data.decode("utf-8-sig"), "the file")
        except FormatError as error:
            raise ValueError(str(error)) from error
        if not isinstance(content, dict):
            raise ValueError("is no JSON object")
        if lacking := [key for key in self.keys if key not in content]:
            raise ValueError(f"has no {lacking[0]}")
        return content


class Lines(Content):
    """Lines of text."""

    def encode(self, value: Iterable[str]) -> bytes:
        return "".join(f"{line}\n" for line in value).encode()

    def decode(self, data: bytes) -> list[str]:
        return data.decode("utf-8", "replace").splitlines()
