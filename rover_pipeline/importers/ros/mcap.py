"""Reads MCAP files (mcap.dev/spec, version 0), from front to back and without their index."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from rover_pipeline.format.files import opened_file
from rover_pipeline.importers.ahead import worked_ahead
from rover_pipeline.importers.ros.files import MAX_CHUNK_BYTES, BagFile, DamageError, Message, decompressed

#: First bytes of a file, and kinds of records. Layout.
MAGIC = b"\x89MCAP0\r\n"
_FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _DATA_END = 2, 3, 4, 5, 6, 15
_RECORD = struct.Struct("<BQ")
_MESSAGE_HEADER = struct.Struct("<HIQQ")
_CHUNK_HEADER = struct.Struct("<QQQI")
_REMEDY = "`mcap recover` repairs it, or --partial takes its whole messages"


class _Part(NamedTuple):
    """A record of a file that matters: its first byte, its kind, and its content."""

    at: int
    kind: int
    data: memoryview


class Mcap(BagFile):
    """An `.mcap` file."""

    def __init__(self, path: Path, partial: bool, compressed: bool = False) -> None:
        super().__init__(path, partial)
        self._schemas: dict[int, str] = {}

    def _messages(self, heads: bool, wanted: Collection[str] | None) -> Iterator[Message]:
        parts = worked_ahead(lambda part: self._content(part, heads), self._parts(wanted), _size)
        for part, content in parts:
            self.position = part.at
            try:
                for kind, data in _records(content, part.at) if part.kind == _CHUNK else ((part.kind, content),):
                    yield from self._record(kind, data, part.at)
            except (struct.error, UnicodeDecodeError, IndexError) as error:
                raise DamageError(f"byte {part.at}: the record there is damaged") from error

    def _parts(self, wanted: Collection[str] | None) -> Iterator[_Part]:
        """Records of the file, but for chunks that hold no message of a topic that is wanted."""
        with opened_file(self.path) as file:
            file.seek(len(MAGIC))
            while (at := file.tell()) + _RECORD.size <= self.size:
                kind, length = _RECORD.unpack(file.read(_RECORD.size))
                if at + _RECORD.size + length > self.size:
                    left = self.size - at - _RECORD.size
                    raise DamageError(
                        f"byte {at}: the record there needs {length:,} bytes, {left:,} are left: it is truncated",
                        _REMEDY,
                    )
                if kind in (_DATA_END, _FOOTER):
                    return
                if kind not in (_SCHEMA, _CHANNEL, _MESSAGE, _CHUNK) or not self._is_needed(at, wanted):
                    file.seek(length, 1)
                    continue
                if length > MAX_CHUNK_BYTES:
                    raise DamageError(f"byte {at}: a record claims {length:,} bytes, more than any recorder writes")
                yield _Part(at, kind, memoryview(file.read(length)))
        raise DamageError(f"byte {self.size}: ends without a footer: its recording was interrupted", _REMEDY)

    def _content(self, part: _Part, heads: bool) -> memoryview:
        """What a record holds; that of a chunk decompressed, and compared with its checksum the first time."""
        data, at = part.data, part.at
        if part.kind != _CHUNK:
            return data
        try:
            _, _, size, checksum = _CHUNK_HEADER.unpack_from(data)
            kind, position = _string(data, _CHUNK_HEADER.size)
            (stored,) = struct.unpack_from("<Q", data, position)
        except (struct.error, IndexError) as error:
            raise DamageError(f"byte {at}: the record there is damaged") from error
        packed = data[position + 8 : position + 8 + stored]
        if len(packed) != stored:
            raise DamageError(f"byte {at}: the chunk there claims {stored:,} bytes of {len(packed):,}")
        content = decompressed(kind, packed, size, at)
        if heads and checksum and zlib.crc32(content) != checksum:
            raise DamageError(f"byte {at}: the checksum of the chunk there is not that of its content")
        return content

    def _record(self, kind: int, data: memoryview, at: int) -> Iterator[Message]:
        if kind == _MESSAGE:
            channel, _, time, _ = _MESSAGE_HEADER.unpack_from(data)
            size = len(data) - _MESSAGE_HEADER.size
            yield Message(*self._channel(channel, at), time, data[_MESSAGE_HEADER.size :], size)
        elif kind == _SCHEMA:
            name, _ = _string(data, 2)
            self._schemas[struct.unpack_from("<H", data)[0]] = name
        elif kind == _CHANNEL:
            number, schema = struct.unpack_from("<HH", data)
            topic, position = _string(data, 4)
            encoding, _ = _string(data, position)
            self._channels[number] = (topic, self._schemas.get(schema, ""), encoding)


def _records(content: memoryview, at: int) -> Iterator[tuple[int, memoryview]]:
    """Kinds and contents of the records of a chunk, which is at a byte of the file."""
    position, end = 0, len(content)
    while position < end:
        kind, length = _RECORD.unpack_from(content, position)
        position += _RECORD.size
        if position + length > end:
            raise DamageError(f"byte {at}: the chunk there ends within the record at its byte {position}")
        yield kind, content[position : position + length]
        position += length


def _size(part: _Part) -> int:
    """Bytes of a record and of what is made of it: a chunk says how large its content is."""
    is_chunk = part.kind == _CHUNK and len(part.data) >= _CHUNK_HEADER.size
    return len(part.data) + (min(_CHUNK_HEADER.unpack_from(part.data)[2], MAX_CHUNK_BYTES) if is_chunk else 0)


def _string(data: memoryview, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<I", data, position)
    start = position + 4
    if start + length > len(data):
        raise IndexError("a string ends outside of its record")
    return bytes(data[start : start + length]).decode(errors="replace"), start + length
