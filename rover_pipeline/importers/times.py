"""Times of files that hold one sample each: from a list, from a rate, or from the names of the files."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from rover_pipeline.errors import ConfigError, FormatError, counted, naming, short_text
from rover_pipeline.format.sensor import time_problem
from rover_pipeline.format.texts import MAX_TEXT_BYTES, read_text
from rover_pipeline.numerics.jumps import EPOCH_S, JUMP_S, is_set, jumps

#: A list of times of ten hours at 100 Hz, 30 characters a line. Schedule.
_MAX_LIST_BYTES = 1 << 27
_DATE = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(\.\d+)?Z?")


def natural_order(path: Path) -> tuple[object, ...]:
    """The key by which `scan2` comes before `scan10`."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name) if part)


def files_of(folder: Path, suffixes: Collection[str], what: str) -> list[Path]:
    """The files of a folder with some suffixes, in the order of their names. FormatError where there are none."""
    if not folder.is_dir():
        raise FormatError(f"{folder}: no such folder")
    found = [path for path in folder.iterdir() if path.suffix.lower() in suffixes and not path.name.startswith(".")]
    if not found:
        raise FormatError(f"{folder}: holds no {what}; known are files {', '.join(suffixes)}")
    return sorted(found, key=natural_order)


def given_text(path: Path, limit: int = MAX_TEXT_BYTES) -> str:
    """The text of a file that the user names. Raises FormatError where there is none, and as `read_text`."""
    with naming(path, FileNotFoundError, NotADirectoryError):
        return read_text(path, limit)


def read_times(path: Path) -> np.ndarray:
    """Times of a list, f8 (N,), seconds since 1970: one a line, in seconds, whole nanoseconds, or as KITTI writes them.
    Raises FormatError where there is no such file, or a line is no time."""
    lines = given_text(path, _MAX_LIST_BYTES).splitlines()
    times = [_time(path, number, line) for number, line in enumerate(lines, 1) if line.strip() and line[0] != "#"]
    return np.array(times, "f8")


def times_of_files(
    files: Sequence[Path], listed: Path | None, rate: float | None, start: float | None
) -> tuple[np.ndarray, str, float, list[str]]:
    """The time of each file.

    Times that are not between 1990 and 2100, such as those that count from the first sweep, are moved: the first one is
    then `start`, or when the first file was last changed. Raises ConfigError where nothing gives the times, and
    FormatError where the list has another number of times than there are files, or they do not increase, or jump.

    Args:
        listed: a list of times, one for each file in order; None = `times.txt` or `timestamps.txt` beside the files or
            above them, if there is one.
        rate: Hz, where there is no list; start: of the first one, seconds since 1970.

    Returns:
        Times, f8 (file,), seconds since 1970, increasing; where they come from; what was added to what the list said,
        s; and what the user should know, one line each.
    """
    folder = files[0].parent
    usual = (place / name for place in (folder, folder.parent) for name in ("timestamps.txt", "times.txt"))
    if start is not None and not is_set(np.array([start])):
        raise ConfigError(f"--start {start}: must be seconds since 1970, between 1990 and 2100")
    found = listed or next((path for path in usual if path.is_file()), None)
    if rate is not None:
        if listed is not None or not 1 / JUMP_S < rate <= 1e6:
            raise ConfigError(f"--rate {rate:g}: must be above {1 / JUMP_S:.4f} Hz, and without --times")
        times, source = np.arange(len(files)) / rate, f"the rate {rate:g} Hz"
    elif found is not None:
        times, source = read_times(found), found.name
        if len(times) != len(files):
            raise FormatError(f"{found}: has {counted(len(times), 'time')}, {folder} {counted(len(files), 'file')}")
    else:
        stems = [_time_of_name(path.stem) for path in files]
        if any(stem is None for stem in stems):
            raise ConfigError(f"{folder}: nothing gives the times of its files; give --times FILE or --rate HZ")
        times, source = np.array(stems, "f8"), "names of files"
    shift, notes = 0.0, []
    if start is not None:
        shift = start - float(times[0])
    elif not is_set(times):
        shift = files[0].stat().st_mtime - float(times[0])
        notes.append(f"times by {source} count from when {files[0].name} was last changed (--start sets the first one)")
    require_steady(times + shift, listed or folder)
    return times + shift, source, shift, notes


def require_steady(times: np.ndarray, place: Path) -> None:
    """Raise FormatError unless times, f8 (N,) s, increase without a jump, between 1990 and 2100."""
    if problem := time_problem(times):
        raise FormatError(f"{place}: times of files: {problem}")
    if len(after := jumps(times)):
        step = times[after[0]] - times[after[0] - 1]
        raise FormatError(
            f"{place}: file {after[0]} comes {step:.0f} s after the one before: these are two recordings; split them"
        )
    if not is_set(times):
        raise FormatError(f"{place}: times run from {times[0]:.3f} to {times[-1]:.3f} s, not between 1990 and 2100")


def _time(path: Path, number: int, line: str) -> float:
    text = line.strip()
    if match := _DATE.match(text):
        with naming(f"{path}: line {number}", ValueError):
            whole = datetime.fromisoformat(match[1]).replace(tzinfo=UTC).timestamp()
        return whole + float(match[2] or 0)
    word = re.split(r"[\s,;]", text)[0]
    try:
        value = float(word)
    except ValueError as error:
        raise FormatError(f"{path}: line {number}: {short_text(text)} is no time") from error
    return _seconds(word) if word.isdigit() and value > 1e3 * EPOCH_S[0] else value


def _time_of_name(stem: str) -> float | None:
    """The time that the name of a file is; None where it is a number of another kind."""
    if re.fullmatch(r"\d{9,10}[._]\d{1,9}", stem):
        return float(stem.replace("_", "."))
    return _seconds(stem) if stem.isdigit() and float(stem) > EPOCH_S[0] else None


def _seconds(digits: str) -> float:
    """A whole number of seconds, milliseconds, microseconds or nanoseconds since 1970 in seconds."""
    value, factor = int(digits), 1
    while value / factor > 1e3 * EPOCH_S[0] and factor < 10**9:
        factor *= 1000
    return value // factor + value % factor / factor
