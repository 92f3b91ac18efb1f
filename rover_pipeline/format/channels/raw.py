"""`raw`: samples back to back in C order, no header."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np

from rover_pipeline.format.channels.base import Channel, ChannelWriter, close_synced
from rover_pipeline.format.files import opened, opened_regular, regular_size
from rover_pipeline.format.meta import ChannelSpec


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
