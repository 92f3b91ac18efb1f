"""Training, validation and test: which samples of which recordings belong to which, the same in every format.

Neighbouring frames of a recording show the same thing, so a random choice of frames would put copies of the training
data into the test. Whole blocks are chosen instead: of time, of recordings, or of places; and between blocks of two
splits a gap is left out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rover_pipeline.datasets.options import SplitOptions
from rover_pipeline.errors import FormatError
from rover_pipeline.format.trace import locate_traces

# The recordings that a dataset is made of, and what they are called in it, whoever makes it.


def named_recordings(entries: Sequence[str], output_root: Path | None = None) -> dict[str, tuple[Path, Path]]:
    """The recordings that entries stand for, by names that follow from their paths, in the order of the names. Raises
    FormatError where there are none, or two have the same name.

    Args:
        entries: traces, directories of traces, or glob patterns.
        output_root: tree of results that belongs to the traces.

    Returns:
        The directory of each, and that of its results, which is the same without an `output_root`. Names have letters,
        digits, `-` and `_`. Splits depend on them, so an export and a reader of the same entries have the same splits.
    """
    base = Path("/-")  # nothing is made there: it shows which part of a path is below the entry
    below = {source: place for place, source in locate_traces(list(entries), Path(), base).items()}
    results = {source: place for place, source in locate_traces(list(entries), Path(), output_root).items()}
    found: dict[str, tuple[Path, Path]] = {}
    for source, place in below.items():
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", "_".join(place.relative_to(base).parts)).strip("-_") or "recording"
        if name in found:
            raise FormatError(f"{source} and {found[name][0]}: would both be called {name} in a dataset; rename one")
        found[name] = source, results[source]
    return {name: found[name] for name in sorted(found)}


#: The splits by their number in an `assign`ment, in full and as most formats call them; NO_SPLIT is none. Layout.
SPLITS = ("train", "validation", "test")
SHORT_SPLITS = ("train", "val", "test")
NO_SPLIT = -1


class Course(NamedTuple):
    """The samples of one recording, or of one of its sensors, that are to be split."""

    #: of the recording. The choice of blocks depends on it, and not on the order of recordings. Courses of one name
    #: have the same blocks, and the first of them has the splits that it has alone.
    name: str
    ts: np.ndarray  #: f8 (N,), s, increasing.
    #: f8 (N, 3), m, in the recording's world; NaN where it is not known. Only `by: place` asks for it.
    pos: np.ndarray | None = None


def assign(courses: Sequence[Course], options: SplitOptions) -> list[np.ndarray]:
    """The split of each sample of each recording, i1 (N,): an index of `SPLITS`, or NO_SPLIT.

    Blocks are taken in an order that follows from the seed and their names. Each goes to the split that lacks most of
    its share of the time. The same recordings, options and seed always give the same splits. Raises FormatError for
    `by: place` of a recording without positions.
    """
    first = {course.name: course.ts[0] for course in reversed(courses) if len(course.ts)}
    blocks = [_blocks(course, first.get(course.name, 0.0), options) for course in courses]
    chosen = _choose(courses, blocks, options)
    return [_without_gaps(*each, options) for each in zip(courses, blocks, chosen, strict=True)]


def without_shared(splits: np.ndarray, indices: Sequence[np.ndarray]) -> np.ndarray:
    """The splits of the instants of a recording, i1 (instant,), NO_SPLIT where an instant's sample of a sensor also
    belongs to an instant of another split. Only gaps that are shorter than the tolerance of the matching, or none,
    leave such instants. `indices`: of each sensor, its sample at each instant, (instant,); -1 = none."""
    apart = splits.copy()
    for index in indices:
        known = (index >= 0) & (splits != NO_SPLIT)
        lowest = np.full(index.max(initial=-1) + 1, len(SPLITS), "i1")
        highest = np.full(index.max(initial=-1) + 1, NO_SPLIT, "i1")
        np.minimum.at(lowest, index[known], splits[known])
        np.maximum.at(highest, index[known], splits[known])
        apart[known] = np.where(lowest[index[known]] == highest[index[known]], apart[known], NO_SPLIT)
    return apart


class _Blocks(NamedTuple):
    """The blocks of one recording."""

    begin: float  #: of the first block in time, s.
    keys: list[tuple[int, ...]]  #: of each block, such as its number or its cell.
    of_sample: np.ndarray  #: i8 (N,), the block of each sample. Samples without a position have any, and are left out.
    seconds: np.ndarray  #: f8 (blocks,), how long each lasts.


def _blocks(course: Course, begin: float, options: SplitOptions) -> _Blocks:
    if not len(course.ts):
        return _Blocks(begin, [], np.zeros(0, "i8"), np.zeros(0))
    if options.by == "recording":
        cells = np.zeros((len(course.ts), 1), "i8")
    elif options.by == "time":
        cells = np.floor((course.ts - begin) / options.block_s).astype("i8")[:, None]
    else:
        if course.pos is None:
            raise FormatError(f"{course.name}: has no positions, so that it cannot be split by place; use `by: time`")
        flat = np.nan_to_num(course.pos[:, :2])
        cells = np.floor(flat / options.cell_m).astype("i8")
    unique, of_sample = np.unique(cells, axis=0, return_inverse=True)
    of_sample = of_sample.reshape(-1)
    # A sample stands for the time up to the next one, but not for a gap of the recording.
    steps = np.diff(course.ts, append=course.ts[-1])
    steps = np.minimum(steps, 2 * np.median(steps[:-1]) if len(steps) > 1 else 1.0)
    steps[-1:] = np.median(steps[:-1]) if len(steps) > 1 else 1.0
    seconds = np.bincount(of_sample, steps, minlength=len(unique))
    return _Blocks(begin, [tuple(map(int, cell)) for cell in unique], of_sample, seconds)


def _choose(courses: Sequence[Course], blocks: Sequence[_Blocks], options: SplitOptions) -> list[np.ndarray]:
    """The split of each block of each recording, i1."""
    shares = np.array([options.train, options.validation, options.test])
    names = [course.name for course in courses]
    seconds = sum(float(each.seconds.sum()) for at, each in enumerate(blocks) if names.index(names[at]) == at)
    wanted = shares / shares.sum() * seconds
    found: dict[tuple[str, tuple[int, ...]], tuple[bool, bytes, float]] = {}
    for at, (name, each) in enumerate(zip(names, blocks, strict=True)):
        for key, lasting in zip(each.keys, each.seconds, strict=True):
            digest = hashlib.blake2b(repr((options.seed, name, key)).encode(), digest_size=8).digest()
            # What only a further sensor has comes last, so that it changes no split of the first.
            found.setdefault((name, key), (names.index(name) != at, digest, lasting))
    split_of: dict[tuple[str, tuple[int, ...]], int] = {}
    for block, (*_, lasting) in sorted(found.items(), key=lambda item: item[1][:2]):
        split_of[block] = split = int(np.argmax(wanted))
        wanted[split] -= lasting
    keys = ([(name, key) for key in each.keys] for name, each in zip(names, blocks, strict=True))
    return [np.array([split_of[block] for block in each], "i1") for each in keys]


def _without_gaps(course: Course, blocks: _Blocks, of_block: np.ndarray, options: SplitOptions) -> np.ndarray:
    """The split of each sample by that of its block; NO_SPLIT where a sample of another split could be nearer than the
    gap."""
    splits = of_block[blocks.of_sample]
    if options.by == "time" and len(splits):
        elapsed = course.ts - blocks.begin
        for at, key in enumerate(blocks.keys):
            for other, boundary in ((at - 1, key[0]), (at + 1, key[0] + 1)):
                if 0 <= other < len(of_block) and of_block[other] != of_block[at]:
                    near = np.abs(elapsed - boundary * options.block_s) < options.gap_s / 2
                    splits[near & (blocks.of_sample == at)] = NO_SPLIT
    if options.by == "place" and course.pos is not None and len(splits):
        flat = course.pos[:, :2]
        splits[~np.isfinite(flat).all(1)] = NO_SPLIT
        reach = int(np.ceil(options.gap_m / options.cell_m))
        cells = dict(zip(blocks.keys, of_block.tolist(), strict=True))
        for at, (x, y) in enumerate(blocks.keys):
            own = np.flatnonzero((blocks.of_sample == at) & (splits != NO_SPLIT))
            for dx in range(-reach, reach + 1):
                for dy in range(-reach, reach + 1):
                    if cells.get((x + dx, y + dy), of_block[at]) == of_block[at]:
                        continue
                    low = np.array([x + dx, y + dy]) * options.cell_m
                    outside = np.maximum(np.maximum(low - flat[own], flat[own] - low - options.cell_m), 0)
                    splits[own[np.hypot(*outside.T) < options.gap_m]] = NO_SPLIT
    return splits
