"""MDA files: the bytes are those of the format, revisions can all be read again, and damage is named."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest

from rover_pipeline.export.mda.files import Entry, Item, append, decode, difference, encode, text_of


def history(texts: list[str]) -> tuple[Entry, ...]:
    entries: tuple[Entry, ...] = ()
    for text in texts:
        entries = append(entries, text)
    return entries


def random_texts(count: int, seed: int = 0) -> list[str]:
    """Texts that share most of their blocks, some empty, none like the one before."""
    rng = np.random.default_rng(seed)
    text, texts = list("abcdefghij" * 8 + "klm"), []
    for number in range(count):
        text[int(rng.integers(len(text)))] = chr(97 + int(rng.integers(26)))
        texts.append("" if number == 7 else f"{''.join(text)}{number % 4}")
    return texts


def test_the_bytes_are_those_of_the_tables_of_the_format() -> None:
    item = Item("Text", b"hi", "m", ("t",), {"g": history(["0123456789ab"])})
    header = struct.pack("<QQ1sQ4sQ1s", 1, 1, b"t", 4, b"Text", 1, b"m")
    payload = struct.pack("<IQ2s", 0, 2, b"hi")
    entry = struct.pack("<iQQQQ", 0, 2, 0, 1, 2) + struct.pack("<QQ10s", 0, 10, b"0123456789")
    entry += struct.pack("<QQ2s", 1, 2, b"ab")
    size = 24 + 25 + len(header) + len(payload)
    wanted = (
        struct.pack("<QQQ", 49, 87, 1) + struct.pack("<Q1sQQ", 1, b"g", size + len(entry), size)
        + header + payload + entry + struct.pack("<iQQ?", 0, size, len(entry), True)
    )  # fmt: skip
    assert encode(item)[0] == wanted
    assert decode(wanted) == item
    assert encode(item)[1] == {"g": [(size, len(entry))]}


def test_entries_have_the_sizes_that_the_format_s_tables_give() -> None:
    entries = history(["0123456789" * 3, "0123456789" * 3 + "x"])
    spans = encode(Item("Text", b"", "", (), {"g": entries}))[1]["g"]
    assert spans[1][0] == sum(spans[0])
    assert spans[0][1] == 20 + 8 * 3 + 3 * 26  # revision 0 stores equal blocks again
    assert spans[1][1] == 20 + 8 * 4 + 17


def test_every_revision_of_a_long_history_is_read_as_it_was_written() -> None:
    texts = random_texts(34)
    data, _ = encode(Item("Image", b"\x89PNG", groups={"a": history(texts), "b": history(texts[:3])}))
    entries = decode(data).groups
    assert [text_of(entries["a"], revision) for revision in range(34)] == texts
    assert text_of(entries["a"], -1) == texts[-1]
    assert [text_of(entries["b"], revision) for revision in range(3)] == texts[:3]


def test_a_revision_stores_only_the_blocks_that_are_new_and_a_snapshot_can_be_read_alone() -> None:
    texts = random_texts(24)
    entries = history(texts)
    for revision, entry in enumerate(entries):
        pieces = [texts[revision][at : at + 10].encode() for at in range(0, len(texts[revision]), 10)]
        if revision % 10 == 0:
            stored = dict(entry.blocks)
            assert b"".join(stored[number] for number in entry.index) == texts[revision].encode()
        elif revision != 7:
            assert len(entry.blocks) <= 2  # the letter that changed, and the end
            assert set(dict(entry.blocks).values()) <= set(pieces)
    numbers = [number for entry in entries[10:20] for number, _ in entry.blocks]
    assert len(numbers) == len(set(numbers)), "no number is given twice within a snapshot's reach"


def test_the_same_text_again_is_no_revision_and_a_return_to_an_older_one_is() -> None:
    entries = history(["one", "two", "two", "one"])
    assert [text_of(entries, revision) for revision in range(len(entries))] == ["one", "two", "one"]
    assert entries[2].blocks == ()
    lines = difference(entries, 0, 1)
    assert lines[-2:] == ["-one", "+two"]


def test_an_annotation_that_readers_could_not_decode_is_refused() -> None:
    with pytest.raises(ValueError, match="ASCII"):
        append((), "twelve bytes é")


@pytest.mark.parametrize("revision", [3, -4])
def test_a_revision_that_is_not_there_is_an_error(revision: int) -> None:
    with pytest.raises(LookupError, match="there are 3"):
        text_of(history(["a", "b", "c"]), revision)


def test_whatever_byte_a_file_is_cut_at_or_damaged_in_its_reader_ends_with_one_kind_of_error() -> None:
    item = Item("Image", bytes(range(40)), "{}", ("a", "b"), {"x": history(random_texts(12)), "y": history(["", "q"])})
    data, _ = encode(item)
    rng = np.random.default_rng(1)
    for end in {0, 1, 7, 24, len(data) - 1, *rng.integers(0, len(data), 150).tolist()}:
        with pytest.raises(ValueError, match=r"byte|group"):
            decode(data[:end])
    with pytest.raises(ValueError, match="byte"):
        decode(data + b"\0")
    for _ in range(300):
        damaged = bytearray(data)
        damaged[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        try:
            found = decode(bytes(damaged))
        except ValueError:
            continue
        assert encode(found)[0] == bytes(damaged)


def test_an_unknown_type_of_payload_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one of"):
        encode(replace(Item("Image", b""), data_type="Picture"))
