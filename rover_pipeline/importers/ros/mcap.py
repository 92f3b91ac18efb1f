"""Reads MCAP files (mcap.dev/spec, version 0), from front to back and without their index."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from rover_pipeline.importers.ros.files import HEAD_BYTES, MAX_CHUNK_BYTES, BagFile, DamageError, Message, decompressed

MAGIC = b"\x89MCAP0\r\n"
_FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _DATA_END = 2, 3, 4, 5, 6, 15
_RECORD = struct.Struct("<BQ")
_MESSAGE_HEADER = struct.Struct("<HIQQ")
_CHUNK_HEADER = struct.Struct("<QQQI")


class Mcap(BagFile):
    """An `.mcap` file."""

    def _messages(self, heads: bool) -> Iterator[Message]:
        self._schemas: dict[int, str] = {}
        self._channels: dict[int, tuple[str, str, str]] = {}
        ended = False
        with self.path.open("rb") as file:
            file.seek(len(MAGIC))
            while (at := file.tell()) + _RECORD.size <= self.size:
                kind, length = _RECORD.unpack(file.read(_RECORD.size))
                self.position = at
                if at + _RECORD.size + length > self.size:
                    left = self.size - at - _RECORD.size
                    raise DamageError(
                        f"byte {at}: the record there needs {length:,} bytes, {left:,} are left: it is truncated",
                        "`mcap recover` repairs it, or --partial takes its whole messages",
                    )
                if kind in (_DATA_END, _FOOTER):
                    ended = True
                    break
                if kind not in (_SCHEMA, _CHANNEL, _MESSAGE, _CHUNK):
                    file.seek(length, 1)
                    continue
                if length > MAX_CHUNK_BYTES:
                    raise DamageError(f"byte {at}: a record claims {length:,} bytes, more than any recorder writes")
                data = memoryview(file.read(length))
                try:
                    if kind == _CHUNK:
                        yield from self._chunk(data, at, heads)
                    else:
                        yield from self._record(kind, data, at, heads)
                except (struct.error, UnicodeDecodeError, IndexError) as error:
                    raise DamageError(f"byte {at}: the record there is damaged") from error
        if not ended:
            remedy = "`mcap recover` repairs it, or --partial takes its whole messages"
            raise DamageError(f"byte {self.size}: ends without a footer: its recording was interrupted", remedy)

    def _chunk(self, data: memoryview, at: int, heads: bool) -> Iterator[Message]:
        _, _, size, checksum = _CHUNK_HEADER.unpack_from(data)
        kind, position = _string(data, _CHUNK_HEADER.size)
        (stored,) = struct.unpack_from("<Q", data, position)
        packed = data[position + 8 : position + 8 + stored]
        if len(packed) != stored:
            raise DamageError(f"byte {at}: the chunk there claims {stored:,} bytes of {len(packed):,}")
        content = decompressed(kind, bytes(packed) if kind else packed, size, at)  # type: ignore[arg-type]
        if heads and checksum and zlib.crc32(content) != checksum:
            raise DamageError(f"byte {at}: the checksum of the chunk there is not that of its content")
        position = 0
        while position < len(content):
            kind_of, length = _RECORD.unpack_from(content, position)
            position += _RECORD.size
            if position + length > len(content):
                raise DamageError(f"byte {at}: the chunk there ends within the record at its byte {position}")
            yield from self._record(kind_of, content[position : position + length], at, heads)
            position += length

    def _record(self, kind: int, data: memoryview, at: int, heads: bool) -> Iterator[Message]:
        if kind == _MESSAGE:
            channel, _, time, _ = _MESSAGE_HEADER.unpack_from(data)
            if channel not in self._channels:
                raise DamageError(f"byte {at}: a message of the unknown channel {channel}")
            body = data[_MESSAGE_HEADER.size :]
            yield Message(*self._channels[channel], time, body[:HEAD_BYTES] if heads else body, len(body))
        elif kind == _SCHEMA:
            name, _ = _string(data, 2)
            self._schemas[struct.unpack_from("<H", data)[0]] = name
        elif kind == _CHANNEL:
            number, schema = struct.unpack_from("<HH", data)
            topic, position = _string(data, 4)
            encoding, _ = _string(data, position)
            self._channels[number] = (topic, self._schemas.get(schema, ""), encoding)


def _string(data: memoryview, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<I", data, position)
    start = position + 4
    if start + length > len(data):
        raise IndexError("a string ends outside of its record")
    return bytes(data[start : start + length]).decode(errors="replace"), start + length
