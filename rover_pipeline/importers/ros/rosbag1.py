"""Reads ROS 1 bags, format 2.0 (wiki.ros.org/Bags/Format/2.0), from front to back and without their index.

A recorder that is killed leaves a bag without an index (`.bag.active`), whose chunks are whole but for the last one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import IO, NamedTuple

from rover_pipeline.errors import short
from rover_pipeline.format.files import opened_file
from rover_pipeline.importers.ahead import worked_ahead
from rover_pipeline.importers.ros.files import MAX_CHUNK_BYTES, BagFile, DamageError, Message, decompressed

#: First bytes of a file, and kinds of records. Layout.
MAGIC = b"#ROSBAG V2.0\n"
_MESSAGE, _BAG, _INDEX, _CHUNK, _CHUNK_INFO, _CONNECTION = (bytes([kind]) for kind in range(2, 8))
_UNINDEXED = "`rosbag reindex` repairs it, or --partial takes its whole messages"


class _Part(NamedTuple):
    """A record of a file that matters: a chunk, or a connection."""

    at: int  #: its first byte.
    header: dict[bytes, bytes]  #: its fields.
    data: bytes  #: its content.
    compression: str | None = None  #: of a chunk; None = it is a connection.
    missing: int = 0  #: bytes that a chunk lacks at the end of the file.


class Rosbag1(BagFile):
    """A `.bag` file."""

    def _messages(self, heads: bool, wanted: Collection[str] | None) -> Iterator[Message]:
        for part, content in worked_ahead(_content, self._parts(wanted), _size):
            self.position = part.at
            if part.compression is None:
                self._connect(part.header, part.data, part.at)
                continue
            if heads and part.compression == "bz2":
                self._keep(part.at, content)
            if part.missing:
                with suppress(DamageError):  # its first messages are whole
                    yield from self._chunk(content, part.at)
                self._require(len(part.data), len(part.data) + part.missing, part.at)
            yield from self._chunk(content, part.at)

    def _parts(self, wanted: Collection[str] | None) -> Iterator[_Part]:
        """Connections and chunks of the file, but for chunks without a message of a topic that is wanted."""
        chunks = index = expected = 0
        with opened_file(self.path) as file:
            file.seek(len(MAGIC))
            while (at := file.tell()) < self.size:
                header = self._read_header(file, at)
                length = self._length(file, at)
                op = header.get(b"op", b"\0")[:1]
                if op == _BAG:
                    index, expected = _number(header, b"index_pos", 8), _number(header, b"chunk_count", 4)
                elif op == _CHUNK:
                    chunks += 1
                    if self._is_needed(at, wanted):
                        yield self._read_chunk(file, header, length, at)
                        continue
                elif op == _CONNECTION:
                    self._require_room(file, length, at)
                    yield _Part(at, header, file.read(length))
                    continue
                elif op not in (_INDEX, _CHUNK_INFO):
                    raise DamageError(f"byte {at}: holds a record of the unknown kind {op.hex() or 'without a number'}")
                self._require_room(file, length, at)
                file.seek(length, 1)
        if not index:
            raise DamageError(f"byte {self.size}: has no index: its recording was interrupted", _UNINDEXED)
        if chunks != expected:
            raise DamageError(f"byte {self.size}: holds {chunks} chunks, its header says {expected}", _UNINDEXED)

    def _read_chunk(self, file: IO[bytes], header: dict[bytes, bytes], length: int, at: int) -> _Part:
        if (kept := self._kept_chunk(at)) is not None:
            self._require_room(file, length, at)
            file.seek(length, 1)
            return _Part(at, header, kept, "none")
        compression = header.get(b"compression", b"none").decode(errors="replace")
        data = file.read(min(length, MAX_CHUNK_BYTES + 1))
        missing = min(length, MAX_CHUNK_BYTES + 1) - len(data)
        if missing and (compression != "none" or length > MAX_CHUNK_BYTES):
            self._require(len(data), length, at)
        return _Part(at, header, data, compression, missing)

    def _chunk(self, content: memoryview, at: int) -> Iterator[Message]:
        position, end = 0, len(content)
        while position < end:
            length = int.from_bytes(content[position : position + 4], "little")
            start = position + 8 + length
            fields = _fields(content[position + 4 : start - 4], at, f"the chunk there, at its byte {position},")
            size = int.from_bytes(content[start - 4 : start], "little")
            if length > end or start > end or start + size > end:
                raise DamageError(f"byte {at}: the chunk there ends within the record at its byte {position}")
            data = content[start : start + size]
            position = start + size
            op = fields.get(b"op", b"\0")[:1]
            if op == _CONNECTION:
                self._connect(fields, bytes(data), at)
            elif op == _MESSAGE:
                number = _number(fields, b"conn", 4)
                time = _number(fields, b"time", 8)
                stamp = (time & 0xFFFFFFFF) * 1_000_000_000 + (time >> 32)
                yield Message(*self._channel(number, at), stamp, data, size)

    def _connect(self, header: dict[bytes, bytes], data: bytes, at: int) -> None:
        described = _fields(data, at, "the description of a connection")
        texts = header.get(b"topic", b""), described.get(b"type", b"")
        topic, type = (each.decode(errors="replace") for each in texts)
        if not topic or not type:
            raise DamageError(f"byte {at}: a connection has no topic or no type")
        self._channels[_number(header, b"conn", 4)] = topic, type, "ros1"

    def _read_header(self, file: IO[bytes], at: int) -> dict[bytes, bytes]:
        length = self._length(file, at)
        self._require_room(file, length, at)
        return _fields(file.read(min(length, 1 << 20)), at, "the header of the record there")

    def _length(self, file: IO[bytes], at: int) -> int:
        data = file.read(4)
        if len(data) < 4:
            raise DamageError(f"byte {at}: ends within the record there: the bag is truncated", _UNINDEXED)
        return int.from_bytes(data, "little")

    def _require_room(self, file: IO[bytes], length: int, at: int) -> None:
        self._require(self.size - file.tell(), length, at)

    def _require(self, have: int, need: int, at: int) -> None:
        if have < need:
            problem = f"byte {at}: the record there needs {need:,} bytes, {max(have, 0):,} are left: it is truncated"
            raise DamageError(problem, _UNINDEXED)


def _content(part: _Part) -> memoryview:
    """The messages of a chunk."""
    if part.compression is None:
        return memoryview(b"")
    size = len(part.data) if part.compression == "none" else _number(part.header, b"size", 4)
    return decompressed(part.compression, memoryview(part.data), size, part.at)


def _size(part: _Part) -> int:
    """Bytes of a chunk and of its content."""
    claimed = int.from_bytes(part.header.get(b"size", b"")[:4], "little")
    return len(part.data) + (min(claimed, MAX_CHUNK_BYTES) if part.compression not in (None, "none") else 0)


def _fields(data: bytes | memoryview, at: int, what: str) -> dict[bytes, bytes]:
    """`name=value` fields, each behind its length, of `what` is at a byte of the file."""
    data, fields, position = bytes(data), {}, 0
    while position < len(data):
        length = int.from_bytes(data[position : position + 4], "little")
        field = data[position + 4 : position + 4 + length]
        name, equals, value = field.partition(b"=")
        if len(field) < length or not equals:
            raise DamageError(f"byte {at}: {what} is damaged: it has no field at byte {position}")
        fields[name] = value
        position += 4 + length
    return fields


def _number(fields: dict[bytes, bytes], name: bytes, size: int) -> int:
    value = fields.get(name, b"")
    if len(value) != size:
        raise DamageError(f"a record has {short(value)} for {name.decode()}, which has {size} bytes")
    return int.from_bytes(value, "little")
