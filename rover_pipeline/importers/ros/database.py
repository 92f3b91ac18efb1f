"""Reads `.db3` files of rosbag2: SQLite databases with the tables `topics` and `messages`, with or without metadata."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

from rover_pipeline.errors import FormatError, short
from rover_pipeline.importers.ahead import worked_ahead
from rover_pipeline.importers.ros.files import HEAD_BYTES, MAX_CHUNK_BYTES, BagFile, DamageError, Message, decompressed

MAGIC = b"SQLite format 3\0"
#: Bytes at the beginning of a zstd frame in which its header with the size of the content stands.
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
#: Instructions of SQLite between two looks at how many there were, and how many such looks any database may take.
#: Schedule.
_INSTRUCTIONS, _MIN_STEPS = 1000, 100_000


class Database(BagFile):
    """A `.db3` file. `compressed`: each message is compressed by zstd (`compression_mode: message` of rosbag2)."""

    def _messages(self, heads: bool, wanted: Collection[str] | None) -> Iterator[Message]:
        journal = self.path.with_name(f"{self.path.name}-wal")
        if journal.exists() and journal.stat().st_size:
            merge = f"`sqlite3 {self.path.name} 'pragma wal_checkpoint'` moves them into it"
            self.problem = f"{journal.name} beside it holds messages that are not in the database yet; {merge}"
            if not self.partial:
                raise FormatError(f"{self.path}: {self.problem}, or --partial does without them")
        # `immutable`: a database on read-only storage cannot be locked, and nothing may be written beside it.
        address = f"file:{quote(str(self.path.absolute()))}?mode=ro&immutable=1"
        try:
            with closing(sqlite3.connect(address, uri=True)) as database:
                _distrust(database, self.size)
                described = database.execute("select id, name, type, serialization_format from topics")
                topics = {number: (str(name), str(type), str(encoding)) for number, name, type, encoding in described}
                (last,) = database.execute("select max(id) from messages").fetchone()
                data = f"substr(data, 1, {HEAD_BYTES})" if heads and not self.compressed else "data"
                chosen = ""
                if wanted is not None:
                    numbers = [number for number, (name, _, _) in topics.items() if name in wanted]
                    chosen = f"where topic_id in ({', '.join(str(int(number)) for number in numbers)})"
                rows = database.execute(
                    f"select id, topic_id, timestamp, length(data), case when length(data) > {MAX_CHUNK_BYTES} then "
                    f"null else {data} end from messages {chosen} order by id"
                )
                for (number, topic, time, size, _), view in self._contents(rows):
                    self.position = int(self.size * number / max(last, 1))
                    if topic not in topics:
                        raise DamageError(f"message {number}: is of the unknown topic {short(topic)}")
                    if view is None or not isinstance(time, int):
                        raise DamageError(f"message {number}: holds {size or 0:,} bytes, which is no message")
                    size = len(view) if self.compressed else size
                    yield Message(*topics[topic], time, view, size)
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:  # the last: its message quotes the damage
            remedy = "`sqlite3 FILE .recover` repairs some, and --partial takes the messages before the damage"
            raise DamageError(f"is a damaged or truncated database ({error})", remedy) from error

    def _contents(self, rows: Iterable[Any]) -> Iterator[tuple[Any, memoryview | None]]:
        """Each row with the bytes of its message; None where it has none."""
        if self.compressed:
            return worked_ahead(_unpacked, rows, _size)
        return ((row, memoryview(row[4]) if isinstance(row[4], bytes) else None) for row in rows)


def _distrust(database: sqlite3.Connection, size: int) -> None:
    """Let a database, in which others can have put any SQL, give the rows of plain tables. Raises DamageError."""
    database.execute("pragma trusted_schema = off")
    database.execute("pragma cell_size_check = on")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2 * MAX_CHUNK_BYTES)
    for name in ("topics", "messages"):
        found = database.execute("select type, rootpage from sqlite_master where name like ?", (name,)).fetchall()
        # A virtual table has no page of its own, and a column that is computed is hidden.
        is_plain = len(found) == 1 and found[0][0] == "table" and found[0][1]
        if not is_plain or any(column[-1] for column in database.execute(f"pragma table_xinfo({name})")):
            raise DamageError(f"{name} is no plain table, as it is in bags", "record it again")
    # What is left to compute is bounded by the file: a row needs some dozen instructions, and some bytes.
    steps = iter(range(_MIN_STEPS + size // 100))
    database.set_progress_handler(lambda: next(steps, None) is None, _INSTRUCTIONS)


def _size(row: Any) -> int:
    """Bytes of a message, of which the content is a few times larger."""
    return 4 * row[3] if isinstance(row[3], int) else 0


def _unpacked(row: Any) -> memoryview | None:
    number, content = row[0], row[4]
    if not isinstance(content, bytes):
        return None
    return decompressed("zstd", memoryview(content), zstd_size(content, number), number)


def zstd_size(content: bytes, number: int) -> int:
    """Bytes of the content of a zstd frame, from its header (RFC 8878, 3.1.1.1)."""
    if content[:4] != _ZSTD_MAGIC or len(content) < 6:
        raise DamageError(f"message {number}: is not compressed by zstd, as metadata.yaml says")
    descriptor = content[4]
    flag, single = descriptor >> 6, descriptor >> 5 & 1
    start = 5 + (0 if single else 1) + (0, 1, 2, 4)[descriptor & 3]
    width = (1 if single else 0, 2, 4, 8)[flag]
    if not width:
        raise DamageError(f"message {number}: its zstd frame does not say how large it is")
    return int.from_bytes(content[start : start + width], "little") + (256 if width == 2 else 0)
