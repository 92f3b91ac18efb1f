"""MDA files on the disk: read, revised, and checked by the rules that readers of the format rely on."""

from __future__ import annotations

import difflib
import json
import os
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rover_pipeline.errors import FormatError, named_if_not_written
from rover_pipeline.export.contents import Content
from rover_pipeline.export.dataset_output import IDENTITY, known_states, tree_state
from rover_pipeline.export.layout import File, Files, Layout
from rover_pipeline.format.attempt import remove_tree, scratch
from rover_pipeline.format.channels.base import sync_file, sync_new_name
from rover_pipeline.format.files import exists, read_bounded
from rover_pipeline.format.provenance import PROVENANCE, read_provenance

# The bytes of an MDA 0.1.0 file: bincode 1.x, little endian, integers of fixed width, no magic number, no checksum.
#
# A file is its index, its header, the payload, and for each group of annotations all entries and then a header for each
# entry. Readers consume it to its end, so nothing may follow.

#: Types of the payload. Their order gives the tag of the enumeration that precedes it.
DATA_TYPES = ("Text", "Image", "Video", "Audio")
#: Every tenth revision is a snapshot: it can be read without the entries before it. Layout.
SNAPSHOT_PERIOD = 10
#: A header record: revision, offset and length of the entry, and whether it is a snapshot.
_HEADER = struct.Struct("<iQQB")
_U64, _U32, _I32 = struct.Struct("<Q"), struct.Struct("<I"), struct.Struct("<i")
#: Bytes of a block; the last one of a text may be shorter. Layout.
BLOCK = 10


@dataclass(frozen=True)
class Entry:
    """One revision of an annotation, as the difference from those since the latest snapshot.

    Attributes:
        index: numbers of the blocks whose concatenation is the text.
        blocks: (number, bytes) of the blocks that this entry stores.
    """

    index: tuple[int, ...]
    blocks: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True)
class Item:
    """What an MDA file holds.

    Attributes:
        data_type: of the payload, one of `DATA_TYPES`.
        payload: the bytes of the original file.
        metadata: free text, here compact JSON.
        tags: free texts.
        groups: name of an annotation -> its revisions, oldest first.
    """

    data_type: str
    payload: bytes
    metadata: str = ""
    tags: tuple[str, ...] = ()
    groups: dict[str, tuple[Entry, ...]] = field(default_factory=dict)


def encode(item: Item) -> bytes:
    """The bytes of a file.

    Raises:
        ValueError: the type of the payload is unknown.
    """
    if item.data_type not in DATA_TYPES:
        raise ValueError(f"the type of the payload must be one of {', '.join(DATA_TYPES)}, is {item.data_type!r}")
    header = _list([_text(tag) for tag in item.tags]) + _text(item.data_type) + _text(item.metadata)
    payload = _U32.pack(DATA_TYPES.index(item.data_type)) + _bytes(item.payload)
    header_offset = 24 + sum(24 + len(name.encode()) for name in item.groups)
    payload_offset = header_offset + len(header)
    end = payload_offset + len(payload)
    index, parts = [], [header, payload]
    for name, entries in item.groups.items():
        encoded = [_entry(revision, entry) for revision, entry in enumerate(entries)]
        entries_offset, records = end, []
        for revision, data in enumerate(encoded):
            records.append(_HEADER.pack(revision, end, len(data), revision % SNAPSHOT_PERIOD == 0))
            end += len(data)
        index.append(_text(name) + _U64.pack(end) + _U64.pack(entries_offset))
        parts += [*encoded, *records]
        end += _HEADER.size * len(records)
    return b"".join([_U64.pack(header_offset), _U64.pack(payload_offset), _list(index), *parts])


def decode(data: bytes) -> Item:
    """The content of a file.

    Raises:
        ValueError: the bytes are not an MDA file, or a part of it is damaged; the message names the byte.
    """
    return _decode(data)[0]


def entry_spans(data: bytes) -> dict[str, list[tuple[int, int]]]:
    """Offset and length in bytes of each entry, by group. Raises ValueError as `decode`."""
    return _decode(data)[1]


def _decode(data: bytes) -> tuple[Item, dict[str, list[tuple[int, int]]]]:
    reader = _Reader(data)
    header_offset, payload_offset = reader.u64(), reader.u64()
    index = [(reader.text(), reader.u64(), reader.u64()) for _ in range(reader.count(24))]
    reader.expect(header_offset, "the header")
    tags = tuple(reader.text() for _ in range(reader.count(8)))
    data_type, metadata = reader.text(), reader.text()
    reader.expect(payload_offset, "the payload")
    tag = reader.u32()
    if data_type not in DATA_TYPES or DATA_TYPES.index(data_type) != tag:
        raise ValueError(f"byte {payload_offset}: a payload with tag {tag} is not of the type {data_type[:20]!r}")
    payload, groups, spans = reader.bytes(), {}, {}
    for number, (name, headers, entries) in enumerate(index):
        if name in groups:
            raise ValueError(f"the group {name[:40]!r} is there twice")
        reader.expect(entries, f"the first entry of the group {name[:40]!r}")
        end = index[number + 1][2] if number + 1 < len(index) else len(data)
        groups[name], spans[name] = _read_group(reader, name, headers, end)
    reader.expect(len(data), "the end of the file")
    return Item(data_type, payload, metadata, tags, groups), spans


def _read_group(reader: _Reader, name: str, headers: int, end: int) -> tuple[tuple[Entry, ...], list[tuple[int, int]]]:
    """The entries of a group and their spans, checked against its headers between the bytes `headers` and `end`."""
    if not reader.position <= headers <= end <= len(reader.data) or (end - headers) % _HEADER.size:
        raise ValueError(f"group {name[:40]!r}: its headers cannot lie between bytes {headers} and {end}")
    entries, spans = [], []
    for revision in range((end - headers) // _HEADER.size):
        at = headers + _HEADER.size * revision
        stored, offset, length, snapshot = _HEADER.unpack_from(reader.data, at)
        begin = reader.position
        if (stored, offset, snapshot) != (revision, begin, revision % SNAPSHOT_PERIOD == 0):
            raise ValueError(f"byte {at}: the header of revision {revision} of {name[:40]!r} does not fit its entry")
        if (number := reader.i32()) != revision:
            raise ValueError(f"byte {begin}: an entry of {name[:40]!r} is revision {number} instead of {revision}")
        index = tuple(reader.u64() for _ in range(reader.count(8)))
        entries.append(Entry(index, tuple((reader.u64(), reader.bytes()) for _ in range(reader.count(16)))))
        spans.append((begin, length))
        reader.expect(begin + length, f"the end of revision {revision} of {name[:40]!r}")
    reader.expect(headers, f"the headers of {name[:40]!r}")
    reader.position = end
    return tuple(entries), spans


def _entry(revision: int, entry: Entry) -> bytes:
    blocks = [_U64.pack(number) + _bytes(block) for number, block in entry.blocks]
    return _I32.pack(revision) + _list([_U64.pack(number) for number in entry.index]) + _list(blocks)


def _list(items: list[bytes]) -> bytes:
    return _U64.pack(len(items)) + b"".join(items)


def _bytes(value: bytes) -> bytes:
    return _U64.pack(len(value)) + value


def _text(value: str) -> bytes:
    return _bytes(value.encode())


class _Reader:
    """Reads values one after the other. What a file says about sizes is not trusted.

    Attributes:
        position: of the next byte.
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def u64(self) -> int:
        return self._number(_U64)

    def u32(self) -> int:
        return self._number(_U32)

    def i32(self) -> int:
        return self._number(_I32)

    def count(self, item_bytes: int) -> int:
        """The length of a list whose items have at least `item_bytes` bytes each."""
        begin, count = self.position, self.u64()
        if count * item_bytes > len(self.data) - self.position:
            raise ValueError(f"byte {begin}: a list of {count} items does not fit into the rest of the file")
        return count

    def bytes(self) -> bytes:
        size = self.count(1)
        self.position += size
        return self.data[self.position - size : self.position]

    def text(self) -> str:
        begin = self.position
        try:
            return self.bytes().decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"byte {begin}: is no UTF-8 text") from error

    def expect(self, position: int, what: str) -> None:
        if self.position != position:
            raise ValueError(f"byte {self.position}: {what} should be here, but it is said to be at {position}")

    def _number(self, kind: struct.Struct) -> int:
        if self.position + kind.size > len(self.data):
            raise ValueError(f"byte {self.position}: the file ends in the middle of a number; it is cut off")
        (value,) = kind.unpack_from(self.data, self.position)
        self.position += kind.size
        return int(value)


def append(entries: tuple[Entry, ...], text: str) -> tuple[Entry, ...]:
    """The revisions with a new one at the end; the same ones if `text` is that of the latest.

    The reference program adds nothing either when a text returns to that of *any* earlier revision, so that its latest
    revision is then not the latest text. Here a text that returns is a new revision, which stores no new blocks.

    A snapshot stores all blocks so far, each number once. The reference stores some of them twice; it reads both.

    Raises:
        ValueError: the text is not ASCII, or an earlier revision cannot be read. Readers decode each block as UTF-8 on
            its own, and a character of several bytes could be cut in two.
    """
    if not text.isascii():
        raise ValueError("an annotation must be ASCII; write other characters as escapes of JSON")
    if entries and text_of(entries, len(entries) - 1) == text:
        return entries
    data = text.encode()
    pieces = [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)]
    revision = len(entries)
    if revision == 0:
        return (Entry(tuple(range(len(pieces))), tuple(enumerate(pieces))),)
    pool = _pool(entries, revision - 1)
    numbers: dict[bytes, int] = {}
    for number, block in pool.items():
        numbers.setdefault(block, number)  # the first of equal blocks is referred to
    stored: dict[int, bytes] = dict(pool) if revision % SNAPSHOT_PERIOD == 0 else {}
    free = max(pool, default=-1) + 1
    index = []
    for piece in pieces:
        if piece not in numbers:
            numbers[piece], stored[free] = free, piece
            free += 1
        index.append(numbers[piece])
    return (*entries, Entry(tuple(index), tuple(stored.items())))


def text_of(entries: tuple[Entry, ...], revision: int) -> str:
    """The text of a revision.

    Args:
        revision: counted from 0; -1 is the latest.

    Raises:
        LookupError: there is no such revision.
        ValueError: it refers to a block that is not stored, or is not ASCII.
    """
    at = revision + len(entries) if revision < 0 else revision
    if not 0 <= at < len(entries):
        raise LookupError(f"there is no revision {revision}; there are {len(entries)}, numbered from 0")
    pool = _pool(entries, at)
    try:
        return b"".join(pool[number] for number in entries[at].index).decode("ascii")
    except KeyError as error:
        raise ValueError(f"revision {at} refers to block {error}, which is not stored") from error


def difference(entries: tuple[Entry, ...], old: int, new: int) -> list[str]:
    """Lines of a unified diff between the texts of two revisions.

    Raises:
        LookupError, ValueError: as `text_of`.
    """
    before, after = (text_of(entries, revision).splitlines() for revision in (old, new))
    return list(difflib.unified_diff(before, after, f"revision {old}", f"revision {new}", lineterm=""))


def _pool(entries: tuple[Entry, ...], revision: int) -> dict[int, bytes]:
    """Number -> bytes of the blocks since the latest snapshot up to a revision, in the order in which they come."""
    first = revision // SNAPSHOT_PERIOD * SNAPSHOT_PERIOD
    return {number: block for entry in entries[first : revision + 1] for number, block in entry.blocks}


#: A video of an hour has some gigabytes. A file is read as a whole, as its format demands. Schedule.
_MAX_BYTES = 4 << 30


def read_item(path: Path) -> Item:
    """The content of an MDA file.

    Raises:
        FormatError: it is none, or it is damaged.
        OSError: it cannot be opened.
    """
    try:
        return decode(read_bytes(path))
    except ValueError as error:
        raise FormatError(f"{path}: is no MDA file, or is damaged: {error}") from error


def read_bytes(path: Path) -> bytes:
    """The bytes of an MDA file. Raises FormatError when it is too large or no regular file."""
    return read_bounded(path, _MAX_BYTES, "an MDA file")


def add_revision(path: Path, group: str, text: str) -> int:
    """Add a revision to a group of a file, unless its latest one has this text already.

    Whatever fails, the older or the newer content is there as a whole. Two calls for one file, or a call and an export
    of the dataset that the file is in, wait for one another.

    Returns:
        The number of revisions of the group.

    Raises:
        FormatError: the file is damaged, or the text is not ASCII.
        RoverError: it cannot be written.
    """
    path = path.absolute()
    dataset = _dataset_of(path)
    with scratch(dataset or path, _remove_unfinished, wait=True) as folder:
        item = read_item(path)
        try:
            entries = append(item.groups.get(group, ()), text)
        except ValueError as error:
            raise FormatError(f"{path}: group {group}: {error}") from error
        with named_if_not_written(path):
            if entries != item.groups.get(group):
                data = encode(replace(item, groups={**item.groups, group: entries}))
                _announce(dataset, path, len(data), folder)
                _replace(path, data, folder / path.name)
            _settle(dataset, folder)
        return len(entries)


def _remove_unfinished(folder: Path) -> None:
    """Remove what a killed update has left. An interrupted export continues from what it has left."""
    if not exists(folder / IDENTITY):
        remove_tree(folder)


def _dataset_of(path: Path) -> Path | None:
    """The dataset of ours that a file is in; None when it is in none."""
    for folder in path.parents:
        if (read_provenance(folder) or {}).get("format") == "mda":
            return folder
    return None


def _announce(dataset: Path | None, path: Path, size: int, scratch: Path) -> None:
    """Let the provenance of a dataset know of both states of one of its files, before that gets its new `size`.

    So the next update goes on wherever this one is interrupted. Where the files are others than it knew, it stays.
    """
    provenance: dict[str, Any] = (read_provenance(dataset) or {}) if dataset else {}
    if dataset is None or (before := tree_state(dataset)) not in known_states(provenance):
        return
    provenance.pop("updated_from", None)
    after = tree_state(dataset, {path.relative_to(dataset).as_posix(): size})
    _write_provenance(dataset, {**provenance, "files": after, "updated_from": before}, scratch)


def _settle(dataset: Path | None, scratch: Path) -> None:
    """Let the provenance forget the older state: the file has its new content, from this update or a killed one."""
    provenance: dict[str, Any] = (read_provenance(dataset) or {}) if dataset else {}
    if dataset and "updated_from" in provenance and tree_state(dataset) == provenance.get("files"):
        del provenance["updated_from"]
        _write_provenance(dataset, provenance, scratch)


def _write_provenance(dataset: Path, content: dict[str, Any], scratch: Path) -> None:
    _replace(dataset / PROVENANCE, (json.dumps(content, indent=2) + "\n").encode(), scratch / PROVENANCE)


def _replace(path: Path, data: bytes, scratch: Path) -> None:
    """Replace a file by one that is built at another path of the same file system."""
    scratch.write_bytes(data)
    if path.exists():
        os.chmod(scratch, path.stat().st_mode & 0o777)
    sync_file(scratch)
    os.replace(scratch, path)
    sync_new_name(path)


def describe(folder: Path) -> dict[str, Any]:
    """Figures of a dataset. Raises FormatError when a file is damaged."""
    tags: Counter[str] = Counter()
    revisions: dict[str, int] = {}
    files = payload = 0
    for path in item_paths(folder):
        item = read_item(path)
        files, payload = files + 1, payload + len(item.payload)
        tags.update(item.tags)
        for name, entries in item.groups.items():
            revisions[name] = max(revisions.get(name, 0), len(entries))
    return {"files": files, "payload_bytes": payload, "most_revisions": revisions, "files_of_tag": dict(tags)}


def relations(folder: Path, found: Files) -> Iterator[str]:
    """Broken rules of each file, and files that are called alike."""
    stems: dict[str, Path] = {}
    for each in found["items"]:
        yield from (f"{each.path}: {problem}" for problem in each.kept or ())
        if each.path.stem in stems:
            yield f"{each.path}: has the stem of {stems[each.path.stem]}; what is extracted from both has one name"
        stems[each.path.stem] = each.path


def item_paths(folder: Path) -> list[Path]:
    """The MDA files of a dataset, in the order of their paths."""
    return sorted(folder.rglob("*.mda"))


def _item_problems(item: Item) -> Iterator[str]:
    for name, entries in item.groups.items():
        if not entries:
            yield f"group {name} has no revision"
        for revision, entry in enumerate(entries):
            if any(len(block) > BLOCK for _, block in entry.blocks):
                yield f"group {name}, revision {revision}: a block is longer than {BLOCK} bytes"
            if not all(block.isascii() for _, block in entry.blocks):
                yield f"group {name}, revision {revision}: is not ASCII, and readers decode each block on its own"
                continue
            try:
                text_of(entries, revision)
            except ValueError as error:
                yield f"group {name}: {error}"


class _Mda(Content):
    """An MDA file."""

    def encode(self, value: Item) -> bytes:
        return encode(value)

    def read(self, path: Path) -> Item:
        item = read_item(path)
        if encode(item) != read_bytes(path):
            raise ValueError("holds bytes that no reader expects")
        return item


LAYOUT = Layout(items=File("{recording}/{item}.mda", _Mda(), keep=lambda item: list(_item_problems(item))))
