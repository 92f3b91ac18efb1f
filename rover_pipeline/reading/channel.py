"""One channel of a sensor, read as an array is: by numbers, slices, lists and masks of samples."""

from __future__ import annotations

import os
import resource
import weakref
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from rover_pipeline.errors import SampleIndexError, UnknownAttributeError, UnknownNameError, did_you_mean, short
from rover_pipeline.format import channels as stored
from rover_pipeline.format.channels.base import RawChannel
from rover_pipeline.format.descriptions import PICTURES, axes_and_unit
from rover_pipeline.format.meta import ChannelSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import DataArray

    from rover_pipeline.format.channels.jpeg import PictureChannel
    from rover_pipeline.reading.sensor import Sensor

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

    Raises SampleIndexError where the key is nothing of this, or a number is beyond the samples.
    """
    keys = _without_ellipsis(key if isinstance(key, tuple) else (key,), axes + 1, where) or (slice(None),)
    first: Any = keys[0]
    if isinstance(first, (list, tuple, range)) or np.ndim(first):
        return Selection(_numbers(first, count, where), keys[1:])
    if isinstance(first, (bool, np.bool_)):
        raise SampleIndexError(f"{where}: {first} is no sample; a mask must have an entry for each sample, {count}")
    try:
        return Selection(range(count)[first], keys[1:])
    except IndexError as error:
        raise SampleIndexError(f"{where}: there is no sample {first} of {count}") from error
    except (TypeError, ValueError) as error:
        is_slice, hint = isinstance(first, slice), "use a number, a slice, or a list of numbers"
        what = f"slice of samples: {error}" if is_slice else f"sample; {hint}"
        raise SampleIndexError(f"{where}: {short(first)} is no {what}") from error


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
            raise SampleIndexError(f"{where}: a mask must have an entry for each sample, {count} and not {len(array)}")
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
        raise SampleIndexError(f"{where}: there is no sample {array[np.argmax(beyond)]} of {count}")
    return np.where(array < 0, array + count, array).astype("i8")


#: Name of the first axis of every channel.
SAMPLE = "sample"
#: Bytes that iteration decodes at once. Schedule.
_BLOCK_BYTES = 1 << 23
#: Files that stay mapped: a map holds a file descriptor, of which a process may have no more than 64. Schedule.
_MAX_MAPPED = min(256, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)
_mapped: deque[weakref.ref[Channel]] = deque()


class Channel:
    """A channel: an array of samples on the disk, of which only what is asked for is read.

    `channel[5]`, `channel[-1]`, `channel[10:100:5]`, `channel[[3, 1, 4]]`, `channel[mask]` and `channel[:100, 2]` mean
    what they mean in numpy. `np.asarray(channel)` is all of it. Of a channel that is stored raw, numbers and slices
    give read-only arrays that are mapped into memory: the disk is read where they are looked at, and `.copy()` gives an
    array of one's own. Of a compressed channel, the samples that were asked for are decoded.

    Attributes:
        sensor: what it is a channel of.
        name: its name, such as `video.avi`.
    """

    def __init__(self, sensor: Sensor, name: str, channel: stored.Channel, count: int) -> None:
        self.sensor, self.name = sensor, name
        self._channel, self._count = channel, count
        self._map: np.ndarray | None = None

    @property
    def spec(self) -> ChannelSpec:
        """Its description in `meta.json`: format, type, shape of a sample, text."""
        return self._channel.spec

    @property
    def description(self) -> str:
        """What it holds, as `meta.json` says it."""
        return self.spec.desc or self.spec.description or ""

    @property
    def unit(self) -> str:
        """Unit of the values, such as `m/s`; empty where there is none, or the description does not state it."""
        return axes_and_unit(self.sensor.name, self.name, self.spec)[1]

    @property
    def axes(self) -> tuple[str, ...]:
        """Name of every axis: `sample`, and those of a sample, such as `doppler`, `range`; `axis_2` where not known."""
        return (SAMPLE, *axes_and_unit(self.sensor.name, self.name, self.spec)[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """numpy's type of the values."""
        return self.spec.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of samples, and the shape of a sample."""
        return (self._count, *self.spec.shape)

    @property
    def ndim(self) -> int:
        """Number of axes, that of the samples included."""
        return 1 + len(self.spec.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all samples when they are decoded."""
        return self._count * self.spec.sample_bytes

    @property
    def ts(self) -> np.ndarray:
        """Time of each sample, f8 (sample,), s since the Unix epoch."""
        return self.sensor.ts

    @property
    def valid(self) -> np.ndarray:
        """Whether each sample can be trusted, bool (sample,)."""
        return self.sensor.valid

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, key: Any) -> np.ndarray:
        """The samples that `key` selects; see the class.

        Raises:
            SampleIndexError: there are no such samples (it is an IndexError too).
            SampleError: a sample cannot be decoded.
            FormatError: the file cannot be read.
        """
        selection = select(key, self._count, len(self.spec.shape), str(self._channel.path))
        block, first = self._block(selection)
        try:
            return block[(first, *selection.rest)]
        except IndexError as error:
            raise SampleIndexError(f"{self._channel.path}: {error}") from error

    def __iter__(self) -> Iterator[np.ndarray]:
        """All samples in order, (*shape) each."""
        step = max(1, _BLOCK_BYTES // self.spec.sample_bytes)
        if not self._channel.random_access:  # every block decompresses all before it
            step = max(step, -(-self._count // 8))
        for start in range(0, self._count, step):
            yield from self[start : start + step]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False and not isinstance(self._channel, RawChannel):
            raise ValueError(f"{self._channel.path}: is decoded when it is read, which makes a copy")
        return np.array(self[:], dtype, copy=copy)

    def take(self, sample: int) -> np.ndarray:
        """One sample, (*shape), as an array of its own that may be changed."""
        return np.array(self[sample])

    @property
    def is_picture(self) -> bool:
        """Whether its samples are stored as JPEG pictures, which can be decoded smaller; see `reduced`."""
        return self.spec.format in PICTURES

    def reduced(self, factor: int) -> Channel:
        """The same pictures with width and height 2, 4 or 8 times smaller, which takes less time to decode.

        Raises:
            FormatError: the channel holds no JPEG pictures, or they cannot be decoded at that size.
        """
        if not self.is_picture:
            raise self._channel.fail(f"is stored as {self.spec.format}; only pictures (mjpg, jpg) are decoded smaller")
        try:
            smaller = cast("PictureChannel", self._channel).reduced(factor)
        except ValueError as error:
            raise self._channel.fail(str(error)) from error
        return Channel(self.sensor, self.name, smaller, self._count)

    def to_xarray(self, samples: Any = None) -> DataArray:
        """The channel as an `xarray.DataArray` over `time`; see `Sensor.to_xarray`."""
        return self.sensor.to_xarray(samples, (self.name,))[self.name]

    def plot(self, sample: int = 0) -> Figure:
        """A figure of one sample, with labelled axes; see `Sensor.plot`."""
        return self.sensor.plot(sample, self.name)

    def close(self) -> None:
        """Give up the memory map; it is made again when it is needed. Arrays that were handed out stay."""
        self._map = None

    def _block(self, selection: Selection) -> tuple[np.ndarray, Any]:
        """An array that holds the selected samples, and their index in it."""
        samples = selection.samples
        if isinstance(self._channel, RawChannel):
            whole = self._mapping(self._channel)
            if isinstance(samples, range):  # one that goes back to 0 has no stop
                return whole, slice(samples.start, samples.stop if samples.stop >= 0 else None, samples.step)
            return whole, samples
        if isinstance(samples, int):
            return self._channel.read(samples, samples + 1), 0
        self._require_memory(len(samples))
        if isinstance(samples, range) and samples.step == 1:
            return self._channel.read(samples.start, max(samples.start, samples.stop)), slice(None)
        return self._gather(np.asarray(samples, "i8"))

    def _gather(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """An array with the samples of these numbers, each read once, and where in it each of them is."""
        unique, at = np.unique(numbers, return_inverse=True)
        if len(unique) and not self._channel.random_access:
            first = int(unique[0])
            return self._channel.read(first, int(unique[-1]) + 1), numbers - first
        block = np.empty((len(unique), *self.spec.shape), self.dtype)
        for run in np.split(np.arange(len(unique)), np.flatnonzero(np.diff(unique) > 1) + 1):
            if len(run):
                block[run[0] : run[-1] + 1] = self._channel.read(int(unique[run[0]]), int(unique[run[-1]]) + 1)
        return block, at

    def _mapping(self, channel: RawChannel) -> np.ndarray:
        whole = self._map
        if whole is None:
            self._map = whole = channel.mapped()[: self._count]
            _mapped.append(weakref.ref(self))
            while len(_mapped) > _MAX_MAPPED:
                if (oldest := _mapped.popleft()()) is not None:
                    oldest.close()
        return whole

    def _require_memory(self, count: int) -> None:
        needed, there = count * self.spec.sample_bytes, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if needed > there:
            raise self._channel.fail(
                f"{count:,} samples take {needed:,} bytes decoded, this machine has {there:,}; read them in slices"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_map": None}  # another process makes its own map

    def _refuse(self, *others: Any) -> Any:
        raise TypeError(f"{self!r} is an array on the disk: write channel[:] for its values, as in channel[:] - 1")

    def __repr__(self) -> str:
        axes = ", ".join(f"{name}: {size}" for name, size in zip(self.axes, self.shape, strict=True))
        unit = f" {self.unit}" if self.unit else ""
        return f"<Channel {self.sensor.name}/{self.name}: {self.spec.type} [{axes}]{unit}>"


_TWO_SIDES = "add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift"
for _name in ("neg pos abs invert lt le gt ge", _TWO_SIDES, " ".join(f"r{name}" for name in _TWO_SIDES.split())):
    for _operator in _name.split():
        setattr(Channel, f"__{_operator}__", Channel._refuse)
