"""Common parts of `npz` and `jpg`: the channel is a folder with one numbered file for each sample."""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from array import array
from pathlib import Path
from typing import ClassVar

import numpy as np

from rover_pipeline.format.channels.base import MAX_STORED, Channel, EncodedWriter, close_synced, note_place, sync_file
from rover_pipeline.format.files import read_bounded
from rover_pipeline.format.meta import ChannelSpec


class BlobChannel(Channel):
    """Samples in `000000.<suffix>`, `000001.<suffix>`, ... Numbers from 1, as of ffmpeg, are read with a note."""

    suffix: ClassVar[str]

    def _open(self) -> int:
        numbered = re.compile(rf"([0-9]{{6,18}})\.{self.suffix}")
        numbers, stray = array("q"), ""
        with os.scandir(self.path) as entries:
            for entry in entries:
                if match := numbered.fullmatch(entry.name):
                    numbers.append(int(match[1]))
                    if len(numbers) > MAX_STORED:
                        raise self.too_many(len(numbers), MAX_STORED)
                else:
                    stray = min(stray or entry.name, entry.name)
        if stray:
            # The published reader counts directory entries, so that it takes a stray file for a sample.
            self.notes.append(f"{self.path}: holds {stray!r}, not a numbered .{self.suffix}; move it away")
        numbers = array("q", sorted(numbers))
        self._first = numbers[0] if numbers else 0
        if self._first == 1:
            self.notes.append(f"{self.path}: numbering starts at 1, the format's starts at 0")
        elif self._first > 1:
            raise self.fail(f"begins with number {self._first}; the samples before it are missing")
        for expected, number in enumerate(numbers, self._first):
            if number != expected:
                raise self.fail(f"sample {expected - self._first}: {expected:06d}.{self.suffix} is missing")
        return len(numbers)

    def _stored(self, path: Path) -> bytes:
        """The bytes of a sample's file."""
        return read_bounded(path, self.max_stored_bytes, f"a sample of {list(self.spec.shape)} of {self.spec.type}")

    def file(self, sample: int) -> Path:
        return self.path / f"{sample + self._first:06d}.{self.suffix}"

    def _read(self, start: int, stop: int, out: np.ndarray) -> None:
        for i in range(start, stop):
            note_place(self.path, i, i)
            try:
                out[i - start] = self._decode(self.file(i))
            except ValueError as error:
                raise self.fail_at(i, None, f"{self.file(i).name} {error}") from error

    @abstractmethod
    def _decode(self, path: Path) -> np.ndarray:
        """One sample. Raises ValueError with a description of what is wrong with the file."""


class BlobWriter(EncodedWriter):
    """Appends numbered files."""

    suffix: ClassVar[str]

    def __init__(self, path: Path, spec: ChannelSpec) -> None:
        super().__init__(path, spec)
        path.mkdir()

    def _put(self, data: bytes, number: int) -> None:
        path = self.path / f"{number:06d}.{self.suffix}"
        with path.open("xb") as file:
            file.write(data)
            close_synced(file)

    def close(self) -> None:
        sync_file(self.path)
