"""What a dataset consists of, declared once: its files, what each of them holds, and the rules that this keeps.

A format declares a `Layout`. `ExportJob.save` writes files by it, and `problems` and `counts` read a folder by it.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.format.files import read_bounded
from rover_pipeline.format.texts import parse_json

#: Bytes of a file that is read whole: a sweep has some megabytes, the poses of ten hours as text 60.
_MAX_BYTES = 1 << 30
#: A key in the path of a file, `{sample}` or `{sample:06d}`, and the end of it.
_KEY = re.compile(r"\\\{(\w+)(?::(\w+))?\\\}")


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
        return self.decode(read_bounded(path, _MAX_BYTES, "any file of a dataset"))


class Records(Content):
    """Binary rows of one type, without a header.

    Args:
        fields: name, type and, if a row has several values of it, their shape: `("xyz", "<f4", (3,))`.
    """

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
    """Text with a row of finite numbers in each line.

    Args:
        columns: numbers of a row; format: of each, as `%.9f`.
    """

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
    """Comma-separated columns of numbers below a line with their names. Further columns are allowed.

    Args:
        columns: name -> format of its numbers, such as `.9f`, or `d` for whole ones.
    """

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

    Args:
        arrays: name -> kinds that its values may have (`f`, `ui`, `b` ...) and its shape, of numbers and of names. What
            has a name has any length, the same in all arrays.
    """

    def __init__(self, **arrays: tuple[Any, ...]) -> None:
        self.arrays = arrays

    def encode(self, value: Mapping[str, Any]) -> bytes:
        file = io.BytesIO()
        np.savez(file, **value)
        return file.getvalue()

    def decode(self, data: bytes) -> dict[str, np.ndarray]:
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
        except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error, NotImplementedError) as error:
            raise ValueError(f"is no npz of arrays: {error}") from error
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
    """A JSON object.

    Args:
        keys: that it must have; indent, sort, end: how it is written.
    """

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


@dataclass(frozen=True)
class File:
    """One kind of file of a dataset.

    Attributes:
        path: below the dataset, with its keys: `{recording}/clouds/{sample:06d}.bin`. `{dataset}` is the name of the
            dataset's folder. What is in brackets, such as `[{recording}/]`, is left out without its key.
        content: how it is stored.
        rules: what is told when a rule is broken -> a function of the content, whether it is kept; of many values an
            array, and `{at}` is the number of the first one that breaks it, `{line}` the number from 1.
        optional: whether a dataset may have none.
        keep: what `Found.kept` has of the content.
    """

    path: str
    content: Content
    rules: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    optional: bool = False
    keep: Callable[[Any], Any] = lambda content: None

    def pattern(self, dataset: str) -> re.Pattern[str]:
        """What matches the paths of such files, with their keys as groups."""
        seen: set[str] = set()

        def group(match: re.Match[str]) -> str:
            name, form = match.groups()
            if name == "dataset":
                return re.escape(dataset)
            if name in seen:
                return f"(?P={name})"
            seen.add(name)
            return rf"(?P<{name}>\d+)" if form else rf"(?P<{name}>[^/]+)"

        text = _KEY.sub(group, re.escape(self.path))
        return re.compile(text.replace(r"\[", "(?:").replace(r"\]", ")?"))

    def broken(self, content: Any) -> Iterator[str]:
        """What is told of the rules that a content breaks. One that lacks what a rule is about breaks the rule, too."""
        for text, holds in self.rules.items():
            holding = np.atleast_1d(_unless_lacking(holds, content, False))
            if not holding.all():
                at = int(np.argmin(holding))
                yield text.format(at=at, line=at + 1)


def _unless_lacking(function: Callable[[Any], Any], content: Any, otherwise: Any) -> Any:
    """A function of what a file holds, or something else where that lacks what the function looks for."""
    try:
        return function(content)
    except (LookupError, TypeError, ValueError, AttributeError):
        return otherwise


class Found(NamedTuple):
    """A file of a dataset.

    Attributes:
        keys: of its path, as text.
        kept: what `File.keep` gives of its content, None where that cannot be read or lacks it.
    """

    path: Path
    keys: Mapping[str, str | None]
    kept: Any = None


#: What there is of each kind of file, by the names that the layout gives the kinds.
Files = dict[str, list[Found]]


class Layout:
    """The files of a dataset, by the names of their kinds."""

    def __init__(self, **files: File) -> None:
        self.files = files

    def __getitem__(self, name: str) -> File:
        return self.files[name]

    def path(self, folder: Path, name: str, **keys: object) -> Path:
        """The path of a file of a dataset. A key that is None is not given."""
        given = {key: value for key, value in keys.items() if value is not None} | {"dataset": folder.name}

        def without_brackets(match: re.Match[str]) -> str:
            return match[1] if given.keys() >= set(re.findall(r"{(\w+)", match[1])) else ""

        return folder / re.sub(r"\[(.*?)\]", without_brackets, self.files[name].path).format(**given)

    def find(self, folder: Path) -> Files:
        """All files of each kind, in the order of their paths, with nothing kept of them. A file is of one kind."""
        patterns = {name: file.pattern(folder.resolve().name) for name, file in self.files.items()}
        found: Files = {name: [] for name in self.files}
        paths = sorted(Path(place, name) for place, _, names in os.walk(folder) for name in names)
        for path in paths:
            below = path.relative_to(folder).as_posix()
            for name, pattern in patterns.items():
                if match := pattern.fullmatch(below):
                    found[name].append(Found(path, match.groupdict()))
                    break
        return found

    def read(self, name: str, path: Path) -> Any:
        """The content of a file of a kind. Raises FormatError."""
        try:
            return self.files[name].content.read(path)
        except (ValueError, OSError) as error:
            text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
            raise FormatError(_told(f"{path}: {text}")) from error

    def kept(self, folder: Path, *names: str) -> Files:
        """Files of some kinds, with what is kept of each. Raises FormatError for what cannot be read."""
        found = self.find(folder)
        return {
            name: [each._replace(kept=self.files[name].keep(self.read(name, each.path))) for each in found[name]]
            for name in names
        }

    def counts(self, folder: Path) -> dict[str, object]:
        """How many files of each kind there are."""
        return {"files": {name: len(each) for name, each in self.find(folder).items() if each}}

    def problems(self, folder: Path, relations: Callable[[Path, Files], Iterator[str]] | None = None) -> Iterator[str]:
        """One line for each file that is missing or that breaks a rule.

        Args:
            relations: gives problems between files, from what is kept of them.
        """
        found = self.find(folder)
        for name, file in self.files.items():
            if not found[name] and not file.optional:
                yield _told(f"{folder}: has no {file.path.replace('{dataset}', folder.resolve().name)}")
            for at, each in enumerate(found[name]):
                try:
                    content = self.read(name, each.path)
                except FormatError as error:
                    yield str(error)
                    continue
                yield from (_told(f"{each.path}: {text}") for text in file.broken(content))
                found[name][at] = each._replace(kept=_unless_lacking(file.keep, content, None))
        try:
            yield from map(_told, relations(folder, found) if relations else ())
        except FormatError as error:
            yield str(error)


def _told(problem: str) -> str:
    """A problem with what to do, unless it asks a question or says it itself."""
    return problem if problem.endswith("?") or "; " in problem else f"{problem}; export it again"
