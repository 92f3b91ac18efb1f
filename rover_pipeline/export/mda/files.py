"""MDA files on the disk: read, revised, and checked by the rules that readers of the format rely on."""

from __future__ import annotations

import difflib
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.errors import named_if_not_written, naming
from rover_pipeline.export.contents import Content
from rover_pipeline.export.layout import File, Files, Layout
from rover_pipeline.export.output import IDENTITY, known_states, replace_whole, tree_state, write_provenance
from rover_pipeline.format.attempt import remove_tree, scratch
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
    """One revision of an annotation, as the difference from those since the latest snapshot: the numbers of the blocks
    whose concatenation is the text, and number and bytes of the blocks that this entry stores."""

    index: tuple[int, ...]
    blocks: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True)
class Item:
    """What an MDA file holds."""

    data_type: str  #: of the payload, one of `DATA_TYPES`.
    payload: bytes  #: the bytes of the original file.
    metadata: str = ""  #: free text, here compact JSON.
    tags: tuple[str, ...] = ()  #: free texts.
    #: name of an annotation -> its revisions, oldest first.
    groups: dict[str, tuple[Entry, ...]] = field(default_factory=dict)


def encode(item: Item) -> tuple[bytes, dict[str, list[tuple[int, int]]]]:
    """The bytes of a file, and by group offset and length of each entry. Raises ValueError for an unknown type."""
    if item.data_type not in DATA_TYPES:
        raise ValueError(f"the type of the payload must be one of {', '.join(DATA_TYPES)}, is {item.data_type[:20]!r}")
    header = _list([_text(tag) for tag in item.tags]) + _text(item.data_type) + _text(item.metadata)
    payload = _U32.pack(DATA_TYPES.index(item.data_type)) + _bytes(item.payload)
    header_offset = 24 + sum(24 + len(name.encode()) for name in item.groups)
    payload_offset = header_offset + len(header)
    end = payload_offset + len(payload)
    index, parts = [], [header, payload]
    spans: dict[str, list[tuple[int, int]]] = {}
    for name, entries in item.groups.items():
        encoded = [_entry(revision, entry) for revision, entry in enumerate(entries)]
        *offsets, headers = accumulate(map(len, encoded), initial=end)
        spans[name] = list(zip(offsets, map(len, encoded), strict=True))
        index.append(_text(name) + _U64.pack(headers) + _U64.pack(end))
        parts += [*encoded, *(_HEADER.pack(n, *span, n % SNAPSHOT_PERIOD == 0) for n, span in enumerate(spans[name]))]
        end = headers + _HEADER.size * len(entries)
    return b"".join([_U64.pack(header_offset), _U64.pack(payload_offset), _list(index), *parts]), spans


def decode(data: bytes) -> Item:
    """The content of a file. Raises ValueError, with the byte, where it is no MDA file, or a part of it is damaged."""
    reader = _Reader(data)
    reader.position = 16  # past the offsets of the header and the payload
    index = [(reader.text(), reader.number(_U64), reader.number(_U64)) for _ in range(reader.count(24))]
    tags = tuple(reader.text() for _ in range(reader.count(8)))
    data_type, metadata, _, payload = reader.text(), reader.text(), reader.number(_U32), reader.bytes()
    groups = {}
    for name, headers, _ in index:
        entries = []
        while reader.position < headers:
            entries.append(reader.entry())
        groups[name] = tuple(entries)
        reader.position += _HEADER.size * len(entries)
    item = Item(data_type, payload, metadata, tags, groups)
    # All else, such as offsets, the numbers of entries and their headers, follows from the content.
    if (wanted := encode(item)[0]) != data:
        length = min(len(wanted), len(data))
        differ = np.frombuffer(wanted, "u1", length) != np.frombuffer(data, "u1", length)
        at = int(differ.argmax()) if differ.any() else length
        raise ValueError(f"byte {at}: does not fit the content of the file")
    return item


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
    """Reads values one after the other; `position` is the next byte's. What a file says about sizes is not trusted."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def number(self, kind: struct.Struct) -> int:
        if self.position + kind.size > len(self.data):
            raise ValueError(f"byte {self.position}: the file ends in the middle of a number; it is cut off")
        (value,) = kind.unpack_from(self.data, self.position)
        self.position += kind.size
        return int(value)

    def count(self, item_bytes: int) -> int:
        """The length of a list whose items have at least `item_bytes` bytes each."""
        begin, count = self.position, self.number(_U64)
        if count * item_bytes > len(self.data) - self.position:
            raise ValueError(f"byte {begin}: a list of {count} items does not fit into the rest of the file")
        return count

    def bytes(self) -> bytes:
        size = self.count(1)
        self.position += size
        return self.data[self.position - size : self.position]

    def text(self) -> str:
        begin = self.position
        with naming(f"byte {begin}: is no UTF-8 text", UnicodeDecodeError, made=ValueError):
            return self.bytes().decode()

    def entry(self) -> Entry:
        self.number(_I32)
        index = tuple(self.number(_U64) for _ in range(self.count(8)))
        return Entry(index, tuple((self.number(_U64), self.bytes()) for _ in range(self.count(16))))


def append(entries: tuple[Entry, ...], text: str) -> tuple[Entry, ...]:
    """The revisions with a new one at the end; the same ones if `text` is that of the latest.

    The reference program adds nothing either when a text returns to that of *any* earlier revision, so that its latest
    revision is then not the latest text. Here a text that returns is a new revision, which stores no new blocks. A
    snapshot stores all blocks so far, each number once. The reference stores some of them twice; it reads both.

    Raises ValueError where the text is not ASCII, or an earlier revision cannot be read. Readers decode each block as
    UTF-8 on its own, and a character of several bytes could be cut in two.
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
    """The text of a revision, counted from 0; -1 is the latest. Raises LookupError where there is none, and ValueError
    where it refers to a block that is not stored, or is not ASCII."""
    at = revision + len(entries) if revision < 0 else revision
    if not 0 <= at < len(entries):
        raise LookupError(f"there is no revision {revision}; there are {len(entries)}, numbered from 0")
    pool = _pool(entries, at)
    try:
        return b"".join(pool[number] for number in entries[at].index).decode("ascii")
    except KeyError as error:
        raise ValueError(f"revision {at} refers to block {error}, which is not stored") from error


def difference(entries: tuple[Entry, ...], old: int, new: int) -> list[str]:
    """Lines of a unified diff between the texts of two revisions. Raises LookupError and ValueError as `text_of`."""
    before, after = (text_of(entries, revision).splitlines() for revision in (old, new))
    return list(difflib.unified_diff(before, after, f"revision {old}", f"revision {new}", lineterm=""))


def _pool(entries: tuple[Entry, ...], revision: int) -> dict[int, bytes]:
    """Number -> bytes of the blocks since the latest snapshot up to a revision, in the order in which they come."""
    first = revision // SNAPSHOT_PERIOD * SNAPSHOT_PERIOD
    return {number: block for entry in entries[first : revision + 1] for number, block in entry.blocks}


#: A video of an hour has some gigabytes. A file is read as a whole, as its format demands. Schedule.
_MAX_BYTES = 4 << 30


def read_item(path: Path) -> Item:
    """The content of an MDA file. Raises FormatError for none or a damaged one, OSError where it cannot be opened."""
    with naming(f"{path}: is no MDA file, or is damaged", ValueError):
        return decode(read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """The bytes of an MDA file. Raises FormatError when it is too large or no regular file."""
    return read_bounded(path, _MAX_BYTES, "an MDA file")


def add_revision(path: Path, group: str, text: str) -> int:
    """Add a revision to a group of a file, unless its latest one has this text. Returns how many the group has then.

    Whatever fails, the older or the newer content is there as a whole. Two calls for one file, or a call and an export
    of the dataset that the file is in, wait for one another. Raises FormatError where the file is damaged, or the text
    is not ASCII, and another RoverError where it cannot be written.
    """
    path = path.absolute()
    dataset = next((each for each in path.parents if (read_provenance(each) or {}).get("format") == "mda"), None)
    with scratch(dataset or path, _remove_unfinished, wait=True) as folder:
        item = read_item(path)
        with naming(f"{path}: group {group}", ValueError):
            entries = append(item.groups.get(group, ()), text)
        with named_if_not_written(path):
            if entries != item.groups.get(group):
                data, _ = encode(replace(item, groups={**item.groups, group: entries}))
                if dataset:
                    _announce(dataset, path, len(data), folder)
                replace_whole(path, data, folder)
            if dataset:
                _settle(dataset, folder)
        return len(entries)


def _remove_unfinished(folder: Path) -> None:
    """Remove what a killed update has left. An interrupted export continues from what it has left."""
    if not exists(folder / IDENTITY):
        remove_tree(folder)


def _announce(dataset: Path, path: Path, size: int, scratch: Path) -> None:
    """Let the provenance of a dataset know of both states of one of its files, before that gets its new `size`.

    So the next update goes on wherever this one is interrupted. Where the files are others than it knew, it stays.
    """
    provenance = read_provenance(dataset) or {}
    if (before := tree_state(dataset)) in known_states(provenance):
        after = tree_state(dataset, {path.relative_to(dataset).as_posix(): size})
        write_provenance(dataset / PROVENANCE, {**provenance, "files": after, "updated_from": before}, scratch)


def _settle(dataset: Path, scratch: Path) -> None:
    """Let the provenance forget the older state: the file has its new content, from this update or a killed one."""
    provenance = read_provenance(dataset) or {}
    if provenance.pop("updated_from", None) is not None and tree_state(dataset) == provenance.get("files"):
        write_provenance(dataset / PROVENANCE, provenance, scratch)


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
        return encode(value)[0]

    def read(self, path: Path) -> Item:
        return read_item(path)


LAYOUT = Layout(items=File("{recording}/{item}.mda", _Mda(), keep=lambda item: list(_item_problems(item))))
