"""`lzma`: one .xz stream of the whole raw array. `lzmaf`: each sample is such a stream, and they are concatenated.

The index of `lzmaf`, `<name>_i`, holds byte offsets, N+1 little-endian u8: 0, the end of sample 0, ..., the end of the
last sample. It is written after the data, so that a power cut leaves it missing or too short. It is then rebuilt from
the streams.
"""

from __future__ import annotations

import binascii
import lzma
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from imagecodecs import LzmaError, lzma_decode

from rover_pipeline.errors import FormatError, counted
from rover_pipeline.format.channels import base
from rover_pipeline.format.files import opened_file, opened_regular, read_bounded, read_exactly, regular_size, sync_file
from rover_pipeline.format.meta import ChannelSpec

#: Bytes that are read or decompressed at once. Schedule.
_BLOCK = 1 << 20
#: Four times the need of `xz -9`; a damaged header may request 4 GB. Schedule.
_DECODER_BYTES = 1 << 28
#: No recording becomes a thousand times smaller. A file of zeros does, and would take hours to read. Schedule.
_MAX_RATIO, _FREE_BYTES = 1000, 1 << 26


class LzmaChannel(base.Channel):
    """One stream: to find its length or a sample, everything before it must be decompressed.

    Memory use is one block whatever the length. The time to read sample i grows with i.
    """

    random_access = False

    def _open(self) -> int:
        size, allowed = 0, _FREE_BYTES + _MAX_RATIO * regular_size(self.path)
        limit = min(base.MAX_SAMPLES * self.spec.sample_bytes, allowed)
        for block in self._blocks():
            size += len(block)
            if size > limit:
                raise self.fail(f"decompresses to more than {limit:,} bytes, which no recording does; correct the file")
        count, extra = divmod(size, self.spec.sample_bytes)
        if extra:
            self.leftover = self.leftover or (
                f"{size:,} decompressed bytes is not a whole number of {self.spec.sample_bytes:,}-byte samples"
            )
        return count

    def _read(self, start: int, stop: int, out: np.ndarray) -> None:
        target = out.reshape(-1).view("u1").data
        skip = start * self.spec.sample_bytes
        for block in self._blocks():
            part = memoryview(block)[min(skip, len(block)) :]
            skip -= len(block) - len(part)
            part = part[: len(target)]
            target[: len(part)] = part
            target = target[len(part) :]
            if not target:
                return
        raise self.fail_at(stop - 1, None, "the stream ended early")

    def _blocks(self) -> Iterator[bytes]:
        """Decompressed bytes in order. A truncated stream ends early, and `leftover` says so."""
        decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_DECODER_BYTES)
        done = 0
        with opened_file(self.path) as file:
            while not decoder.eof:
                data = file.read(_BLOCK) if decoder.needs_input else b""
                if decoder.needs_input and not data:
                    self.leftover = f"the stream is cut off after byte {file.tell()} of the file"
                    return
                try:
                    block = decoder.decompress(data, max_length=_BLOCK)
                except lzma.LZMAError as error:
                    sample = done // self.spec.sample_bytes
                    raise self.fail_at(sample, file.tell() - len(data), f"is corrupt: {error}") from error
                done += len(block)
                if block:
                    yield block
            if decoder.unused_data or file.read(1):
                raise self.fail("holds bytes after the end of its stream; `lzma` is one stream (is this `lzmaf`?)")


class LzmaWriter(base.ChannelWriter):
    """Compresses all samples into one stream, which ends when the writer is closed."""

    def __init__(self, path: Path, spec: ChannelSpec) -> None:
        super().__init__(path, spec)
        self._raw = path.open("xb")
        self._file = lzma.LZMAFile(self._raw, "wb", preset=0)  # noqa: SIM115

    def _append(self, samples: np.ndarray) -> None:
        self._file.write(samples.reshape(-1).view("u1").data)

    def close(self) -> None:
        if not self._raw.closed:
            self._file.close()
            base.close_synced(self._raw)


_MAGIC = b"\xfd7zXZ\x00"
#: Bytes of a stream header; a stream footer has as many. Layout.
_HEADER = 12
#: Bytes that are searched for streams at once. Schedule.
_SCAN = 1 << 22


class LzmafChannel(base.Channel):
    """Samples that are compressed one by one. One `pread` reads a range, and decoding releases the GIL."""

    def _open(self) -> int:
        size = regular_size(self.path)
        offsets = self._stored_index(size)
        if offsets is None or offsets[-1] != size:
            known = np.zeros(1, "<u8") if offsets is None else offsets
            with opened_regular(self.path) as descriptor:
                ends = stream_ends(descriptor, int(known[-1]), size, self.max_stored_bytes)
            if offsets is None or ends:
                what = "is missing or empty" if offsets is None else f"ends at byte {known[-1]} of {size}"
                self.notes.append(f"{self.path}_i: {what}; indexed {counted(len(ends), 'sample')} from the .xz streams")
            offsets = np.concatenate([known, np.asarray(ends, "<u8")])
            if offsets[-1] != size:
                self.leftover = (
                    f"the last {size - int(offsets[-1]):,} bytes, from byte {offsets[-1]}, are part of a sample"
                )
        if len(offsets) - 1 > base.MAX_STORED:
            raise self.too_many(len(offsets) - 1, base.MAX_STORED)
        self._offsets = offsets
        return len(offsets) - 1

    def _stored_index(self, size: int) -> np.ndarray | None:
        """Offsets from the index file; None when it is missing or empty."""
        path = self.path.with_name(self.path.name + "_i")
        try:
            data = read_bounded(path, 8 * (base.MAX_STORED + 1), f"an index of {base.MAX_STORED:,} samples")
        except FileNotFoundError:
            return None
        offsets = np.frombuffer(data[: len(data) // 8 * 8], "<u8")
        if len(offsets) == 0:
            return None
        if offsets[0] != 0 or np.any(offsets[1:] <= offsets[:-1]):
            bad = 0 if offsets[0] != 0 else 1 + int(np.argmax(offsets[1:] <= offsets[:-1]))
            raise FormatError(
                f"{path}: entry {bad} at byte {bad * 8}: offsets must rise from 0; "
                "remove or move the file away to have it rebuilt from the streams"
            )
        # When the data file is truncated and the index is not, keep the samples that are complete.
        return offsets[: int(np.searchsorted(offsets, size, side="right"))]

    def _read(self, start: int, stop: int, out: np.ndarray) -> None:
        first = int(self._offsets[start])
        sizes = np.diff(self._offsets[start : stop + 1])
        if (sizes > self.max_stored_bytes).any():
            at = start + int(np.argmax(sizes > self.max_stored_bytes))
            stored = f"{sizes[at - start]:,} bytes for {self.spec.sample_bytes:,} bytes of values"
            raise self.fail_at(at, int(self._offsets[at]), f"is corrupt: its index gives it {stored}")
        with opened_regular(self.path) as descriptor:
            data = memoryview(read_exactly(descriptor, int(self._offsets[stop]) - first, first))
        for i in range(start, stop):
            base.note_place(self.path, i, i)
            begin, end = int(self._offsets[i]) - first, int(self._offsets[i + 1]) - first
            self._decode(i, first + begin, data[begin:end], out[i - start, ...])

    def _decode(self, sample: int, byte: int, data: memoryview, out: np.ndarray) -> None:
        wanted = self.spec.sample_bytes
        claimed = stream_size(data)
        if claimed is None:
            raise self.fail_at(sample, byte, "is corrupt: not one whole .xz stream")
        if claimed != wanted:
            raise self.fail_at(
                sample, byte, f"decodes to {claimed:,} bytes, {list(self.spec.shape)} of {self.spec.type} is {wanted:,}"
            )
        try:
            # With one spare byte, a stream that holds more than it claims is noticed.
            decoded = lzma_decode(bytes(data), out=wanted + 1)
        except (LzmaError, ValueError, RuntimeError) as error:
            raise self.fail_at(sample, byte, f"is corrupt: {error}") from error
        if len(decoded) != wanted:
            raise self.fail_at(sample, byte, f"is corrupt: decodes to {len(decoded):,} bytes instead of {wanted:,}")
        out[...] = np.frombuffer(decoded, self.spec.dtype).reshape(self.spec.shape)


class LzmafWriter(base.EncodedWriter):
    """Compresses every sample on its own, with the collector's preset 0, and writes the index when closed."""

    def __init__(self, path: Path, spec: ChannelSpec) -> None:
        super().__init__(path, spec)
        self._file = path.open("xb")
        self._offsets = [0]

    @staticmethod
    def encode(sample: np.ndarray) -> bytes:
        return lzma.compress(sample.tobytes(), preset=0)

    def _put(self, data: bytes, number: int) -> None:
        self._file.write(data)
        self._offsets.append(self._offsets[-1] + len(data))

    def close(self) -> None:
        if not self._file.closed:
            base.close_synced(self._file)
            index = self.path.with_name(self.path.name + "_i")
            index.write_bytes(np.asarray(self._offsets, "<u8").tobytes())
            sync_file(index)


def stream_size(data: memoryview | bytes) -> int | None:
    """Uncompressed bytes that a single .xz stream claims to hold; None when it is not one whole stream.

    The size comes from the stream's index (the .xz file format specification, 1.2.1, sections 2.1.2 and 4). The index
    has a checksum, so that a damaged stream cannot request a wrong amount of memory.
    """
    if len(data) < 2 * _HEADER or data[: len(_MAGIC)] != _MAGIC or not _is_footer(data[-_HEADER:], data[6:8]):
        return None
    length = 4 * (int.from_bytes(data[-8:-4], "little") + 1)  # of the index
    index = bytes(data[-_HEADER - length : -_HEADER])
    if len(data) < 2 * _HEADER + length or struct.unpack("<I", index[-4:])[0] != binascii.crc32(index[:-4]):
        return None
    try:
        records, position = _varint(index, 1)
        total = 0
        for _ in range(records):
            _, position = _varint(index, position)
            size, position = _varint(index, position)
            total += size
    except IndexError:
        return None
    return total


def stream_ends(descriptor: int, start: int, size: int, longest: int) -> list[int]:
    """Byte offsets of the ends of the whole .xz streams from offset `start` on, up to the first truncated one.

    A stream of more than `longest` bytes counts as truncated, so that no more than that is searched for its end.

    A stream ends where the bytes before the next magic, or before the end of the file, are a stream footer with a
    correct checksum. That compressed data look like both has a probability of 2^-80.
    """
    ends: list[int] = []
    position = start  # of the current stream
    if read_exactly(descriptor, len(_MAGIC), position) != _MAGIC:
        return ends
    for scan in range(start + 1, size, _SCAN):
        if scan - position > longest or len(ends) > base.MAX_STORED:
            return ends
        data = read_exactly(descriptor, _SCAN + len(_MAGIC) - 1, scan)
        for match in re.finditer(re.escape(_MAGIC), data):
            if _ends_stream(descriptor, position, scan + match.start()):
                position = scan + match.start()
                ends.append(position)
    if _ends_stream(descriptor, position, size):
        ends.append(size)
    return ends


def _ends_stream(descriptor: int, start: int, end: int) -> bool:
    if end - start < 2 * _HEADER:
        return False
    flags = read_exactly(descriptor, 2, start + len(_MAGIC))
    return _is_footer(read_exactly(descriptor, _HEADER, end - _HEADER), flags)


def _is_footer(footer: memoryview | bytes, flags: memoryview | bytes) -> bool:
    """Whether 12 bytes are the footer of a stream with the given flags."""
    return footer[8:] == bytes(flags) + b"YZ" and struct.unpack("<I", footer[:4])[0] == binascii.crc32(footer[4:10])


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A variable-length integer of the .xz format and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80 or shift > 63:
            return value, position
