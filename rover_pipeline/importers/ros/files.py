"""What all kinds of bags have in common: messages in the order of the file, and how damage is reported."""

from __future__ import annotations

import bz2
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import imagecodecs
import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.format.files import regular_size

#: Bytes of a chunk, compressed or not: recorders write 768 kB to 4 MB, and one message at most. Schedule.
MAX_CHUNK_BYTES = 1 << 28
#: Bytes of a message that are given when only its beginning is asked for. Schedule.
HEAD_BYTES = 1 << 16
_PARTIAL = "--partial takes the whole messages before it"


class Message(NamedTuple):
    """One message. Names of its topic and type are as the file has them."""

    topic: str
    type: str
    encoding: str  #: `ros1`, `cdr`, or another that cannot be decoded.
    time: int  #: when it was recorded, ns since the Unix epoch.
    data: memoryview  #: its bytes, or only their beginning where that was asked for.
    size: int  #: the number of all.


class BagFile(ABC):
    """A file of messages, opened for reading."""

    #: a file for chunks that take much longer to decompress than to write and read; None = there is none.
    scratch: IO[bytes] | None = None

    def __init__(self, path: Path, partial: bool, compressed: bool = False) -> None:
        self.path, self.partial, self.compressed = path, partial, compressed
        self.size = regular_size(path)  #: its bytes.
        self.position = 0  #: the byte that was read last, for the progress.
        self.problem = ""  #: why the messages after a byte cannot be read, where `partial` let it pass; else empty.
        #: number of a connection or channel -> topic, type and encoding, where a file numbers them.
        self._channels: dict[int, tuple[str, str, str]] = {}
        self._held: dict[int, set[str]] = {}
        self._kept: dict[int, tuple[int, int]] = {}

    @abstractmethod
    def _messages(self, heads: bool, wanted: Collection[str] | None) -> Iterator[Message]:
        """See `messages`. More of a message than its beginning, and other topics, may be given too."""

    def _channel(self, number: int, at: int) -> tuple[str, str, str]:
        """The topic, type and encoding of a message in the chunk at a byte, of which is noted that it has the topic."""
        if number not in self._channels:
            raise DamageError(f"byte {at}: a message of the unknown channel {number}")
        self._held.setdefault(at, set()).add(self._channels[number][0])
        return self._channels[number]

    def _is_needed(self, at: int, wanted: Collection[str] | None) -> bool:
        """Whether a chunk has a message of these topics, as far as is known from reading it before."""
        return wanted is None or at not in self._held or not self._held[at].isdisjoint(wanted)

    def _keep(self, at: int, content: memoryview) -> None:
        """Keep the content of the chunk at a byte for the next reading."""
        if self.scratch is not None:
            self._kept[at] = (self.scratch.seek(0, os.SEEK_END), len(content))
            while content:
                content = content[self.scratch.write(content) :]

    def _kept_chunk(self, at: int) -> bytes | None:
        if self.scratch is None or at not in self._kept:
            return None
        offset, size = self._kept[at]
        return os.pread(self.scratch.fileno(), size, offset)

    def messages(self, heads: bool = False, wanted: Collection[str] | None = None) -> Iterator[Message]:
        """Messages in the order of the file, which is the same each time; with `heads` only the beginning of each, and
        whole files are checked; those of other topics than `wanted` may be left out (None = all are). Raises
        FormatError where the file is damaged or not complete, unless `partial` lets that pass."""
        try:
            for message in self._messages(heads, wanted):
                if wanted is None or message.topic in wanted:
                    yield message._replace(data=message.data[:HEAD_BYTES]) if heads else message
        except DamageError as error:
            self.problem = str(error)
            if not self.partial:
                raise FormatError(f"{self.path}: {error}; {error.remedy or _PARTIAL}") from error
        except OSError as error:
            raise FormatError(f"{self.path}: cannot be read: {error.strerror or error}") from error


class DamageError(Exception):
    """What is wrong with a file, and at which byte. `remedy`: what helps, where `--partial` is not all."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem)
        self.remedy = remedy


def decompressed(kind: str, data: memoryview, size: int, at: int) -> memoryview:
    """The content of a chunk. Without the interpreter's lock, so that several threads may do it at once.

    Args:
        kind: name of the compression; size: bytes that it must give; at: byte of the file, for messages.
    """
    if max(size, len(data)) > MAX_CHUNK_BYTES:
        raise DamageError(f"byte {at}: a chunk claims {max(size, len(data)):,} bytes, more than any recorder writes")
    if kind in ("", "none"):
        return data
    if kind not in _DECOMPRESS:
        raise DamageError(f"byte {at}: a chunk is compressed by {kind!r}; known: none, bz2, lz4, zstd")
    try:
        content = memoryview(_DECOMPRESS[kind](data, size))
    except Exception as error:  # imagecodecs raises an error class for each codec
        raise DamageError(f"byte {at}: a chunk cannot be decompressed by {kind}") from error
    if len(content) != size:
        raise DamageError(f"byte {at}: a chunk has {len(content):,} bytes, its header says {size:,}")
    return content


def _buffer(size: int) -> Any:
    """Memory that is not filled first, in a form that the decoder gives back without a copy."""
    return np.empty(size, "u1")


#: One byte more than is claimed, so that longer content is noticed without keeping it all. Layout.
_DECOMPRESS: dict[str, Callable[[Any, int], Any]] = {
    "bz2": lambda data, size: bz2.BZ2Decompressor().decompress(data, max_length=size + 1),
    "lz4": lambda data, size: imagecodecs.lz4f_decode(data, out=_buffer(size + 1)),
    "zstd": lambda data, size: imagecodecs.zstd_decode(data, out=_buffer(size + 1)),
}
