"""`lzma`: one .xz stream of the whole raw array."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from rover_pipeline.format.channels.base import MAX_SAMPLES, Channel, ChannelWriter, close_synced
from rover_pipeline.format.files import opened_file, regular_size
from rover_pipeline.format.meta import ChannelSpec

#: Bytes that are read or decompressed at once. Schedule.
_BLOCK = 1 << 20
#: Four times the need of `xz -9`; a damaged header may request 4 GB. Schedule.
_DECODER_BYTES = 1 << 28
#: No recording becomes a thousand times smaller. A file of zeros does, and would take hours to read. Schedule.
_MAX_RATIO, _FREE_BYTES = 1000, 1 << 26


class LzmaChannel(Channel):
    """One stream: to find its length or a sample, everything before it must be decompressed.

    Memory use is one block whatever the length. The time to read sample i grows with i.
    """

    random_access = False

    def _open(self) -> int:
        size, limit = 0, min(MAX_SAMPLES * self.spec.sample_bytes, _FREE_BYTES + _MAX_RATIO * regular_size(self.path))
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


class LzmaWriter(ChannelWriter):
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
            close_synced(self._raw)
