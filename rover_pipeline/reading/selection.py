"""What an index in brackets means: which samples of a channel, and which part of each, as numpy has it."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.errors import SampleIndexError, UnknownAttributeError, UnknownNameError, did_you_mean, short

# A dictionary whose entries are attributes too: what one sample is given as.


class Record(dict[str, Any]):
    """Values by name: `record["rng"]`, and `record.rng` for names that are Python names.

    It is a plain dictionary for all who collate or pickle it, and prints in a line; torch's `default_collate` turns a
    list of records into a record of batches.
    """

    def __missing__(self, name: str) -> Any:
        raise UnknownNameError(_unknown(name, self))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self:
            raise UnknownAttributeError(_unknown(name, self))
        return self[name]

    def __repr__(self) -> str:
        return f"<Record {', '.join(f'{name}: {_short(value)}' for name, value in self.items())}>"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in self if name.isidentifier())]


def _short(value: Any) -> str:
    """A value in a few characters: of an array its type and shape."""
    if not hasattr(value, "shape"):
        return repr(value)
    return f"{value.dtype}{[*value.shape]}" if value.shape else str(value)


def _unknown(name: str, record: Record) -> str:
    return f"the sample has no {name!r}; {did_you_mean(name, record)}"


class Selection(NamedTuple):
    """Samples of a channel, and a part of each of them."""

    #: one number, a range of numbers, or an array i8 (N,); all from 0 to the number of samples - 1.
    samples: int | range | np.ndarray
    rest: tuple[Any, ...]  #: indices of the axes of a sample.


def select(key: Any, count: int, axes: int, where: str) -> Selection:
    """What `key` selects.

    Args:
        key: a number (negative ones count from the end), a slice, a list or array of numbers, or a boolean array with
            an entry for each sample; or a tuple that begins with one of these and goes on with indices of the axes of a
            sample; `...` stands for as many axes as are left.
        count: number of samples; axes: number of axes of a sample.
        where: the channel or sensor, for messages.

    Raises:
        SampleIndexError: the key is nothing of this, or a number is beyond the samples.
    """
    keys = _without_ellipsis(key if isinstance(key, tuple) else (key,), axes + 1, where)
    first, rest = (keys[0], keys[1:]) if keys else (slice(None), ())
    if isinstance(first, slice):
        try:
            return Selection(range(*first.indices(count)), rest)
        except (TypeError, ValueError) as error:
            raise SampleIndexError(f"{where}: {short(first)} is no slice of samples: {error}") from error
    if isinstance(first, (list, tuple, range, np.ndarray)) and not (isinstance(first, np.ndarray) and first.ndim == 0):
        return Selection(_numbers(first, count, where), rest)
    if isinstance(first, (bool, np.bool_)):
        raise SampleIndexError(f"{where}: {first} is no sample; a mask must have an entry for each of {count} samples")
    try:
        number = operator.index(first)
    except TypeError as error:
        raise SampleIndexError(
            f"{where}: {short(first)} is no sample; use a number, a slice, or a list of numbers"
        ) from error
    if not -count <= number < count:
        raise SampleIndexError(f"{where}: has {count} samples; there is no sample {number}")
    return Selection(number % count, rest)


def _without_ellipsis(keys: tuple[Any, ...], axes: int, where: str) -> tuple[Any, ...]:
    """The keys with slices in the place of `...`, so that the first one is that of the samples."""
    if any(key is None for key in keys[:1]):
        raise SampleIndexError(f"{where}: None (a new axis) cannot come before the samples")
    at = [number for number, key in enumerate(keys) if key is Ellipsis]
    if len(at) > 1:
        raise SampleIndexError(f"{where}: only one `...` can be in an index")
    if not at:
        return keys
    used = sum(1 for key in keys if key is not None) - 1
    return (*keys[: at[0]], *(slice(None),) * max(0, axes - used), *keys[at[0] + 1 :])


def _numbers(values: Any, count: int, where: str) -> np.ndarray:
    """Numbers of samples from a list or an array of numbers, or from a mask."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise SampleIndexError(f"{where}: {short(values)} is no list of samples") from error
    if array.ndim != 1:
        raise SampleIndexError(f"{where}: a list of samples has one axis, not {array.ndim}")
    if array.dtype == bool:
        if len(array) != count:
            raise SampleIndexError(f"{where}: a mask of {len(array)} entries does not fit {count} samples")
        return np.flatnonzero(array)
    if not len(array):
        return np.empty(0, "i8")
    if array.dtype == np.uint8:
        # As numbers, the entries of the channel `valid` would silently select samples 0 and 1.
        raise SampleIndexError(f"{where}: an index of type u1 looks like a mask; use `.valid`, or convert it to bool")
    if array.dtype.kind not in "iu":
        raise SampleIndexError(f"{where}: samples are selected by whole numbers or booleans, not by {array.dtype}")
    beyond = (array < -count) | (array >= count)
    if beyond.any():
        raise SampleIndexError(f"{where}: has {count} samples; there is no sample {array[np.argmax(beyond)]}")
    return np.where(array < 0, array + count, array).astype("i8")
