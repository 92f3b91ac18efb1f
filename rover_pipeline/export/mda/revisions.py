"""Revisions of an annotation: texts in blocks of ten bytes, of which a later revision stores only new ones."""

from __future__ import annotations

import difflib

from rover_pipeline.export.mda.codec import SNAPSHOT_PERIOD, Entry

#: Bytes of a block; the last one of a text may be shorter.
BLOCK = 10


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
