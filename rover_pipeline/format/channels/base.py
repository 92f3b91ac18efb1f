"""The contract of a channel format: samples are read by range and appended in order. `raw` is one without a header."""

from __future__ import annotations

import mmap
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from rover_pipeline.errors import FormatError, SampleError
from rover_pipeline.format.files import opened, opened_regular, regular_size, sync_file
from rover_pipeline.format.meta import ChannelSpec

#: Samples of a channel: 10 h of an IMU at 200 Hz are 7.2 million. Times and flags are read at once. Schedule.
MAX_SAMPLES = 1 << 23
#: Samples stored one by one: 10 h of a camera at 100 Hz are 3.6 million. Each has an entry in memory. Schedule.
MAX_STORED = 1 << 22
#: Bytes of a channel that is read whole, such as the rotations of 10 h of poses at 200 Hz. Schedule.
MAX_WHOLE_BYTES = 1 << 29
#: A sample that is stored compressed may be larger than its values by the headers of its format. Schedule.
_HEADERS = 1 << 20


class Channel(ABC):
    """A channel on disk, opened for reading.

    Reading never changes a file, holds no lock and keeps no decoded data, so many threads may read one channel at the
    same time, and a channel may be sent to another process. `len()` is the number of whole samples on disk.
    """

    #: Whether reading sample i takes the same time for every i.
    random_access = True

    def __init__(self, path: Path, spec: ChannelSpec) -> None:
        self.path = path  #: the channel's file or folder.
        self.spec = spec
        self.notes: list[str] = []  #: unusual facts about the files that do not prevent reading, one line each.
        self.leftover = ""  #: a description of bytes after the last whole sample, as a power cut leaves them.
        with self._os_errors():
            self._length = self._open()
        if self._length > MAX_SAMPLES:
            raise self.too_many(self._length, MAX_SAMPLES)

    def __len__(self) -> int:
        return self._length

    @abstractmethod
    def _open(self) -> int:
        """Inspect the files and return the number of whole samples."""

    @abstractmethod
    def _read(self, start: int, stop: int, out: np.ndarray) -> None:
        """Decode samples `start:stop`, at least one, into `out`."""

    def read(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Samples `start:stop`, (sample, *shape). Raises SampleError where one cannot be decoded, and FormatError where
        the range is not on disk, or the file cannot be read."""
        stop = len(self) if stop is None else stop
        if not 0 <= start <= stop <= len(self):
            raise FormatError(f"{self.path}: samples {start} to {stop} were asked for, {len(self)} are there")
        try:
            out = np.empty((stop - start, *self.spec.shape), self.spec.dtype)
        except MemoryError as error:
            size = (stop - start) * self.spec.sample_bytes
            raise self.fail(f"samples {start} to {stop} take {size:,} bytes, more than there is memory for") from error
        if start < stop:
            note_place(self.path, start, stop - 1)
            with self._os_errors():
                self._read(start, stop, out)
            note_place()
        return out

    def __getitem__(self, part: slice) -> np.ndarray:
        """The samples of a slice, as of an array. Raises as `read`."""
        return self.read(*part.indices(len(self))[:2])

    def sample(self, number: int) -> np.ndarray:
        """One sample, (*shape). Raises as `read`."""
        return self.read(number, number + 1)[0]

    def read_whole(self, count: int | None = None) -> np.ndarray:
        """The first `count` samples, or all of them, (sample, *shape), of a channel that has few bytes a sample. Raises
        FormatError as `read`, and where they are more bytes than are read at once."""
        count = len(self) if count is None else count
        if count * self.spec.sample_bytes > MAX_WHOLE_BYTES:
            size = count * self.spec.sample_bytes
            raise self.fail(
                f"{count:,} samples of {list(self.spec.shape)} of {self.spec.type} are {size:,} bytes, more than the "
                f"{MAX_WHOLE_BYTES:,} that are read at once; correct the shape"
            )
        return self.read(0, count)

    @property
    def max_stored_bytes(self) -> int:
        """Bytes above which the stored form of a sample is not that of a sample of this shape."""
        return 2 * self.spec.sample_bytes + _HEADERS

    def too_many(self, count: int, limit: int) -> FormatError:
        return self.fail(f"holds {count:,} samples, more than the {limit:,} of any recording; correct the file")

    def fail(self, problem: str) -> FormatError:
        return FormatError(f"{self.path}: {problem}")

    def fail_at(self, sample: int, byte: int | None, problem: str) -> SampleError:
        where = f"sample {sample}" if byte is None else f"sample {sample} at byte {byte}"
        return SampleError(f"{self.path}: {where}: {problem}", sample)

    @contextmanager
    def _os_errors(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise self.fail(
                f"is listed in meta.json but {os.path.basename(error.filename or self.path)} is missing; restore it"
            ) from error
        except OSError as error:
            raise self.fail(f"cannot be read: {error.strerror or error}") from error


class ChannelWriter(ABC):
    """Appends samples to a new channel. `close` writes them to the disk for good."""

    def __init__(self, path: Path, spec: ChannelSpec) -> None:
        self.path = path
        self.spec = spec
        self.count = 0

    def append(self, samples: np.ndarray) -> None:
        """Add samples, (sample, *shape). They must have the type of the channel: nothing is converted silently."""
        samples = np.asarray(samples)
        if samples.shape[1:] != self.spec.shape or samples.dtype != self.spec.dtype:
            raise FormatError(
                f"{self.path}: samples of shape {list(samples.shape[1:])} and type {samples.dtype} were given, "
                f"the channel holds {list(self.spec.shape)} of {self.spec.type}"
            )
        self._append(np.ascontiguousarray(samples))
        self.count += len(samples)

    @abstractmethod
    def _append(self, samples: np.ndarray) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class EncodedWriter(ChannelWriter):
    """A writer of samples that are encoded one by one, so that other threads can encode them in parallel."""

    @staticmethod
    @abstractmethod
    def encode(sample: np.ndarray) -> bytes:
        """The stored bytes of one sample, (*shape)."""

    @abstractmethod
    def _put(self, data: bytes, number: int) -> None: ...

    def _append(self, samples: np.ndarray) -> None:
        for i, sample in enumerate(samples):
            self._put(self.encode(sample), self.count + i)

    def append_encoded(self, data: bytes) -> None:
        """Add the bytes of one sample from `encode`, which another thread may have called."""
        self._put(data, self.count)
        self.count += 1


def sync_folders(folder: Path) -> None:
    """Wait until the names of all files below a folder are on the disk. Their writers have synced what they hold."""
    for each, _, _ in os.walk(folder):
        sync_file(Path(each))


def sync_new_name(path: Path) -> None:
    """Wait until the new name of something whole is on the disk.

    An error gives a warning only: readers find the thing whole, and a power cut in the next seconds could undo no more
    than the new name.
    """
    try:
        sync_file(path.parent)
    except OSError as error:
        print(f"{path}: its name may not be on the disk yet: {error.strerror}", file=sys.stderr, flush=True)


def close_synced(file: IO[bytes]) -> None:
    """Close a file when its content is on the disk; a closed one stays as it is."""
    if not file.closed:
        file.flush()
        os.fsync(file.fileno())
        file.close()


# Where each thread is in a recording, in memory that outlives its process: a decoder in C can end it at any sample.

#: Bytes for each thread, and number of threads with bytes of their own: two whose numbers differ by a multiple of it
#: share theirs. Forked processes share the memory. Layout.
_BYTES, _THREADS = 1024, 1024
_memory = mmap.mmap(-1, _BYTES * _THREADS)


def note_place(where: object = "", first: int = 0, last: int = 0) -> None:
    """Note the path and the samples that this thread decodes, or computes from; nothing, without arguments."""
    text = f"{where}: sample{f's {first} to {last}' if last > first else f' {first}'}" if where else ""
    slot = threading.get_native_id() % _THREADS * _BYTES
    _memory[slot : slot + _BYTES] = text.encode(errors="replace")[-_BYTES:].ljust(_BYTES, b"\0")


def noted_places() -> list[str]:
    """What threads, of this process and of those that were forked from it, were at when they ended. Forgets it."""
    slots = [_memory[at : at + _BYTES].rstrip(b"\0") for at in range(0, len(_memory), _BYTES)]
    _memory[:] = bytes(len(_memory))
    return sorted({slot.decode(errors="replace") for slot in slots if slot})


class RawChannel(Channel):
    """Raw samples, read with `preadv`: a memory map would count as memory that the process uses.

    `mapped` gives such a map to those who read single samples often, or who want to look before they read.
    """

    def _open(self) -> int:
        size = regular_size(self.path)
        count, extra = divmod(size, self.spec.sample_bytes)
        if extra:
            self.leftover = (
                f"{size:,} bytes is not a whole number of {self.spec.sample_bytes:,}-byte samples; "
                f"the last {extra:,} bytes, from byte {size - extra}, are part of one"
            )
        return count

    def _read(self, start: int, stop: int, out: np.ndarray) -> None:
        view = out.reshape(-1).view("u1").data
        offset = start * self.spec.sample_bytes
        with opened_regular(self.path) as descriptor:
            while view:
                count = os.preadv(descriptor, [view], offset)
                if count == 0:
                    sample = offset // self.spec.sample_bytes
                    raise self.fail_at(sample, offset, "the file became shorter while it was read")
                view, offset = view[count:], offset + count

    def mapped(self) -> np.ndarray:
        """All samples as a read-only memory map, (sample, *shape): the disk is read where the array is looked at.

        The map keeps one file descriptor open as long as an array of it exists. A file that becomes shorter afterwards
        ends the process when its missing part is read. Raises FormatError where the file has fewer samples than when it
        was opened, or cannot be mapped.
        """
        shape = (len(self), *self.spec.shape)
        if not len(self):
            return np.empty(shape, self.spec.dtype)
        needed = len(self) * self.spec.sample_bytes
        with self._os_errors(), opened_regular(self.path) as descriptor:
            if (size := os.fstat(descriptor).st_size) < needed:
                raise self.fail(f"has {size:,} bytes now, {needed:,} when it was opened; open the recording again")
            held = mmap.mmap(descriptor, needed, access=mmap.ACCESS_READ)
        return np.frombuffer(held, self.spec.dtype).reshape(shape)


class RawWriter(ChannelWriter):
    """Appends to a raw file."""

    def __init__(self, path: Path, spec: ChannelSpec) -> None:
        super().__init__(path, spec)
        self._file = path.open("xb")

    def _append(self, samples: np.ndarray) -> None:
        self._file.write(samples.reshape(-1).view("u1").data)

    def close(self) -> None:
        close_synced(self._file)


def allocate(path: Path, spec: ChannelSpec, count: int) -> None:
    """Make a raw file of `count` samples, whose slices `write_at` then fills in any order."""
    with path.open("xb") as file:
        file.truncate(count * spec.sample_bytes)


def write_at(path: Path, spec: ChannelSpec, start: int, samples: np.ndarray) -> None:
    """Fill samples `start:start + len(samples)` of a file made by `allocate`."""
    view = np.ascontiguousarray(samples, spec.dtype).reshape(-1).view("u1").data
    offset = start * spec.sample_bytes
    with opened(path, os.O_WRONLY) as descriptor:
        while view:
            count = os.pwrite(descriptor, view, offset)
            view, offset = view[count:], offset + count
