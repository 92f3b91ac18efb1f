"""Errors meant for users: one line that names the place and says what to do."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

#: Begins the last line of the log of a job that failed.
ERROR_MARK = "error: "


class RoverError(Exception):
    """A problem the user can act on. The message is one line; no traceback is shown."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(str(message).split()))


class ConfigError(RoverError):
    """An option is unknown, misspelled or out of its range."""


class FormatError(RoverError):
    """A trace, sensor or channel is not what its metadata says."""


class SampleError(FormatError):
    """One sample of a channel cannot be decoded; the others may be fine.

    Attributes:
        sample: index of the sample in its channel.
    """

    def __init__(self, message: str, sample: int) -> None:
        super().__init__(message)
        self.sample = sample

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel back from Dask workers by pickle, which replays __init__.
        return (type(self), (self.args[0], self.sample))


class InTheWayError(RoverError):
    """A directory that this program did not make stands where a result belongs."""


class MissingExtraError(RoverError):
    """An optional library is needed; the message names the extra to install."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs an optional library: pip install 'rover-pipeline[{extra}]'")
        self.purpose, self.extra = purpose, extra

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.purpose, self.extra))


#: A disk that is full or read-only, a quota or a limit on files that is reached: never of something that is read.
_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


@contextmanager
def named_if_not_written(place: Path) -> Iterator[None]:
    """Gives the operating system's errors of writing (a full disk, a quota) a place, instead of no file or scratch."""
    try:
        yield
    except OSError as error:
        if error.errno is None or (error.filename is not None and error.errno not in _OF_WRITING):
            raise
        raise RoverError(f"{place}: cannot be written: {error.strerror}; nothing of it is left behind") from error


def describe(error: Exception) -> str:
    """One line for any error: what a user can act on, or where to look when it is a fault of ours."""
    if isinstance(error, RoverError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror}"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text} (unexpected; --debug shows where)"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A closing clause that names the nearest known word, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(sorted(known))


def explain(error: ValidationError) -> str:
    """The first problem of a pydantic error as `place: what is wrong`, in one line."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"]) or "top level"
    given = "" if first["type"] == "missing" else f" (got {short(first['input'])})"
    return f"{place}: {first['msg'].removeprefix('Value error, ')}{given}"


def short(value: object, limit: int = 60) -> str:
    """A value as a message quotes it, cut off where it would fill the screen."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
