"""What a dataset consists of, declared once: its files, what each of them holds, and the rules that this keeps.

A format declares a `Layout`. `ExportJob.save` writes files by it, and `problems` and `counts` read a folder by it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.export.contents import Content

#: A key in the path of a file, `{sample}` or `{sample:06d}`, and the end of it.
_KEY = re.compile(r"\\\{(\w+)(?::(\w+))?\\\}")


@dataclass(frozen=True)
class File:
    """One kind of file of a dataset."""

    #: below the dataset, with its keys: `{recording}/clouds/{sample:06d}.bin`. `{dataset}` is the name of the dataset's
    #: folder. What is in brackets, such as `[{recording}/]`, is left out without its key.
    path: str
    content: Content  #: how it is stored.
    #: the message when a rule is broken -> a function of the content, whether it is kept; of many values an array, and
    #: `{at}` is the number of the first one that breaks it, `{line}` the number from 1.
    rules: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    optional: bool = False  #: whether a dataset may have none.
    keep: Callable[[Any], Any] = lambda content: None  #: what `Found.kept` has of the content.

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
        """A message for each rule that a content breaks. One that lacks what a rule is about breaks the rule, too."""
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
    """A file of a dataset: the `keys` of its path, as text, and what `File.keep` gives of its content, None where that
    cannot be read or lacks it."""

    path: Path
    keys: Mapping[str, str | None]
    kept: Any = None


#: What there is of each kind of file, by the names that the layout gives the kinds.
Files = dict[str, list[Found]]


class Layout(dict[str, File]):
    """The files of a dataset, by the names of their kinds."""

    def path(self, folder: Path, name: str, **keys: object) -> Path:
        """The path of a file of a dataset. A key that is None is not given."""
        given = {key: value for key, value in keys.items() if value is not None} | {"dataset": folder.name}

        def without_brackets(match: re.Match[str]) -> str:
            return match[1] if given.keys() >= set(re.findall(r"{(\w+)", match[1])) else ""

        return folder / re.sub(r"\[(.*?)\]", without_brackets, self[name].path).format(**given)

    def find(self, folder: Path) -> Files:
        """All files of each kind, in the order of their paths, with nothing kept of them. A file is of one kind."""
        patterns = {name: file.pattern(folder.resolve().name) for name, file in self.items()}
        found: Files = {name: [] for name in self}
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
            return self[name].content.read(path)
        except (ValueError, OSError) as error:
            text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
            raise FormatError(_with_remedy(f"{path}: {text}")) from error

    def kept(self, folder: Path, *names: str) -> Files:
        """Files of some kinds, with what is kept of each. Raises FormatError for what cannot be read."""
        found = self.find(folder)
        return {
            name: [each._replace(kept=self[name].keep(self.read(name, each.path))) for each in found[name]]
            for name in names
        }

    def counts(self, folder: Path) -> dict[str, object]:
        """How many files of each kind there are."""
        return {"files": {name: len(each) for name, each in self.find(folder).items() if each}}

    def problems(self, folder: Path, relations: Callable[[Path, Files], Iterator[str]] | None = None) -> Iterator[str]:
        """One line for each file that is missing or that breaks a rule, and for each problem between files, which
        `relations` gives from what is kept of them."""
        found = self.find(folder)
        for name, file in self.items():
            if not found[name] and not file.optional:
                yield _with_remedy(f"{folder}: has no {file.path.replace('{dataset}', folder.resolve().name)}")
            for at, each in enumerate(found[name]):
                try:
                    content = self.read(name, each.path)
                except FormatError as error:
                    yield str(error)
                    continue
                yield from (_with_remedy(f"{each.path}: {text}") for text in file.broken(content))
                found[name][at] = each._replace(kept=_unless_lacking(file.keep, content, None))
        try:
            yield from map(_with_remedy, relations(folder, found) if relations else ())
        except FormatError as error:
            yield str(error)


def _with_remedy(problem: str) -> str:
    """A problem with what to do, unless it asks a question or says it itself."""
    return problem if problem.endswith("?") or "; " in problem else f"{problem}; export it again"
