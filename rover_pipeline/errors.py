"""Errors for users: one line that names the file or option and says what to do."""

from __future__ import annotations

import difflib
import errno
import os
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what has been made together with others only says so, and need not wait for this library
    from pydantic import ValidationError

#: Characters of a message: a path has up to 4096 bytes, and `short` cuts off all else that is quoted. Layout.
_MAX_MESSAGE = 6000
#: Characters of a name that are compared with the known ones. Schedule.
_COMPARED = 100
#: Set by `--debug`, for the processes of a run too: errors are shown with their tracebacks.
DEBUG_VARIABLE = "ROVER_PIPELINE_DEBUG"
#: Ends the message of an error that no user has caused.
UNEXPECTED = "(unexpected; --debug shows where)"
#: Begins the last line of the log of a job that failed.
ERROR_MARK = "error: "


class RoverError(Exception):
    """A problem that the user can solve. The message is one line, and no traceback is shown."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(str(message)))


class ConfigError(RoverError):
    """An option is unknown or has a wrong value."""


class FormatError(RoverError):
    """A trace, sensor or channel does not agree with its metadata."""


class SampleError(FormatError):
    """One sample of a channel cannot be decoded: `sample` is its number. The others may be intact."""

    def __init__(self, message: str, sample: int) -> None:
        super().__init__(message)
        self.sample = sample

    def __reduce__(self) -> tuple[object, ...]:
        # Dask workers send errors by pickle, which calls __init__ with these arguments.
        return (type(self), (self.args[0], self.sample))


class UnknownNameError(FormatError, KeyError):
    """There is no sensor, channel or file of this name. It is a KeyError too, as Python's mappings raise."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would put the message into quotes


class UnknownAttributeError(UnknownNameError, AttributeError):
    """The same for a name after a dot, so that `hasattr` and `getattr` with a default work."""


class SampleIndexError(FormatError, IndexError):
    """An index is beyond the samples, or no index at all. It is an IndexError too, as Python's sequences raise."""


class UnfitError(RoverError):
    """A recording cannot give a result although nothing went wrong: it is too short, or nothing was in sight.

    A step that makes files raises it, and its result says why there are none. The message is for the page.
    """


class InTheWayError(RoverError):
    """A file or directory that this program did not make has the path of a result."""


class ReportedError(RoverError):
    """An error of another process, by its message. `passes`: what `may_pass` says of it."""

    def __init__(self, message: str, passes: bool = False) -> None:
        super().__init__(message)
        self.passes = passes


class MissingExtraError(RoverError):
    """An optional library is needed; the message names the extra to install."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs an optional library: pip install 'rover-pipeline[{extra}]'")
        self.purpose, self.extra = purpose, extra

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.purpose, self.extra))


#: A full disk, a quota, a limit on the size of files, a read-only file system: errors that only writing can cause.
_WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


@contextmanager
def named_if_not_written(path: Path) -> Iterator[None]:
    """Turns errors of writing into one that names `path`. The operating system names a scratch file or no file."""
    try:
        yield
    except OSError as error:
        if error.errno is None or (error.filename is not None and error.errno not in _WRITE_ERRORS):
            raise
        raise RoverError(f"{path}: cannot be written: {error.strerror}; nothing of it is left behind") from error


#: Errors of a disk or of the system that may pass: they say nothing about the data.
_PASSING = (errno.EIO, errno.ENOSPC, errno.ESTALE, errno.ETIMEDOUT, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


def require_damage(error: BaseException) -> None:
    """Raise an error again unless it means damaged data: what a disk could not read is not absent or damaged."""
    if _of_the_system(error):
        raise error


@contextmanager
def unless_damaged() -> Iterator[None]:
    """Goes on after the block where data are absent or damaged; what a disk could not read is an error all the same."""
    try:
        yield
    except (FormatError, OSError) as error:
        require_damage(error)


@contextmanager
def as_damage(path: Path) -> Iterator[None]:
    """What the values of a file or folder do not allow to compute, a ValueError, is an error of its format."""
    try:
        yield
    except ValueError as error:
        raise FormatError(f"{path}: its values cannot be used: {short(one_line(str(error)), 200)}") from error


@contextmanager
def naming(
    place: object, *kinds: type[Exception], made: type[Exception] = FormatError, remedy: str = "", limit: int = 2000
) -> Iterator[None]:
    """Turns errors of some kinds, but for our own, into one of the class `made`, which names the place before what is
    wrong. `remedy`: how its message ends; `limit`: characters of what is wrong, where a library may quote a whole file.
    """
    try:
        yield
    except RoverError:
        raise
    except kinds as error:
        said = error.strerror if isinstance(error, OSError) else f"lacks {error}" if isinstance(error, KeyError) else ""
        raise made(f"{place}: {short_text(said or error, limit)}{remedy}") from error


def may_pass(error: BaseException) -> bool:
    """Whether the same work on the same input may succeed later: the error is none of the user's, or of the system."""
    return (
        error.passes if isinstance(error, ReportedError) else not isinstance(error, RoverError) or _of_the_system(error)
    )


def _of_the_system(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _PASSING:
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def describe(error: Exception) -> str:
    """One line for any error. An error that is our own fault points to `--debug`."""
    if isinstance(error, RoverError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        path = f"{error.filename}: " if error.filename else ""
        return one_line(f"{path}{error.strerror}")
    text = one_line(str(error))
    return f"{type(error).__name__}: {text} {UNEXPECTED}"


def show_traceback(error: BaseException) -> None:
    """Print the traceback of an error on the terminal where `--debug` was given."""
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)


def one_line(text: str) -> str:
    """A text as one line of printable characters. What a damaged file holds must not control a terminal."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= _MAX_MESSAGE else f"{line[: _MAX_MESSAGE - 3]}..."


def printable(text: str) -> str:
    """A text of lines whose other control characters, and bytes that are no UTF-8, are written as escapes."""
    if text.isprintable():
        return text
    kept = (each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode() for each in text)
    return "".join(kept)


def counted(number: int, noun: str, plural: str = "") -> str:
    """1 sample, 2 samples. `plural`: of the noun, where it does not end with an s more."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The last clause of a message: the known name nearest to `name`, or all known ones, or that it has none."""
    if not (known := list(known)):
        return "it has none"
    near = difflib.get_close_matches(name[:_COMPARED], known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(sorted(known))


def explain(error: ValidationError) -> str:
    """The first problem of a pydantic error in one line, as `field: what is wrong`."""
    first = error.errors()[0]
    said = first["msg"].removeprefix("Value error, ")
    if said != first["msg"] and not first["loc"]:
        return said  # a check of the whole names its field
    field = ".".join(str(part) for part in first["loc"]) or "top level"
    given = "" if first["type"] == "missing" else f" (got {short(first['input'])})"
    return f"{field}: {said}{given}"


def short_text(value: object, limit: int = 60) -> str:
    """A value as text without quotes, cut off after `limit` characters."""
    text = one_line(str(value))
    return text if len(text) <= limit else text[: limit - 3] + "..."


def short(value: object, limit: int = 60) -> str:
    """A value as a message quotes it, cut off after `limit` characters."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
