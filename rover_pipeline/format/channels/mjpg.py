"""Reads `mjpg`: MJPEG video in an AVI container. Times come from `ts`; the frame rate of the container is nominal."""

from __future__ import annotations

import struct
from array import array

import numpy as np

from rover_pipeline.format.channels import jpeg
from rover_pipeline.format.channels.base import MAX_STORED, note_place
from rover_pipeline.format.files import opened_file, opened_regular, read_exactly, regular_size

#: Bytes of the container that are read at once while chunks are counted: a page, of which a frame has many. Schedule.
_BUFFER = 1 << 12
#: A chunk of sound, or a list, may come with every frame. Schedule.
_MAX_CHUNKS = 2 * MAX_STORED
#: No JPEG is smaller, bytes. A smaller chunk is a lost frame, or padding: a recording has few of them. Schedule.
_MIN_JPEG, _MAX_EMPTY = 100, 100_000


class MjpgChannel(jpeg.PictureChannel):
    """Frames by number, which are located by reading the container's chunks one after another.

    This (AVI RIFF file reference, with the OpenDML extension for files above 1 GB) needs neither the sizes of the
    enclosing lists nor the index at the end, which an interrupted recording does not have.
    """

    def _open(self) -> int:
        jpeg.check_spec(self.path, self.spec)
        frames = array("q")  # offset and length of each frame
        size = regular_size(self.path)
        position = chunks = empty = 0
        with opened_file(self.path, _BUFFER) as file:
            if file.read(4) != b"RIFF":
                raise self.fail("byte 0: is not an AVI file (no RIFF header)")
            while position + 8 <= size:
                chunks += 1
                if chunks > _MAX_CHUNKS:
                    raise self.fail(f"holds more than {_MAX_CHUNKS:,} chunks, as no recording does; correct it")
                file.seek(position)
                header = file.read(12)
                kind, length = header[:4], struct.unpack("<I", header[4:8])[0]
                if kind == b"RIFF" or (kind == b"LIST" and header[8:12] in (b"movi", b"rec ")):
                    position += 12  # its content follows
                    continue
                if not all(32 <= byte < 127 for byte in kind) or position + 8 + length > size:
                    self.leftover = f"the bytes from {position} to the end, {size - position:,}, are no whole frame"
                    break
                if length < _MIN_JPEG:
                    empty += 1
                    if empty > _MAX_EMPTY:
                        raise self.fail(f"holds more than {_MAX_EMPTY:,} frames without a picture; record it again")
                if kind[2:] in (b"dc", b"db") and kind[:2].isdigit():
                    frames.extend((position + 8, length))
                position += 8 + length + length % 2
        self._frames = np.array(frames, np.int64).reshape(-1, 2)
        if len(self._frames) > MAX_STORED:
            raise self.too_many(len(self._frames), MAX_STORED)
        return len(self._frames)

    def jpeg(self, frame: int) -> bytes:
        offset, length = self._frames[frame].tolist()
        if length > self.max_stored_bytes:
            raise self.fail_at(frame, offset, f"has {length:,} bytes, more than a picture of {list(self.spec.shape)}")
        with opened_regular(self.path) as descriptor:
            return read_exactly(descriptor, length, offset)

    def stored_bytes(self, frame: int) -> int:
        return int(self._frames[frame, 1])

    def _read(self, start: int, stop: int, out: np.ndarray) -> None:
        for i in range(start, stop):
            note_place(self.path, i, i)
            try:
                out[i - start] = self._picture(self.jpeg(i))
            except ValueError as error:
                raise self.fail_at(i, int(self._frames[i][0]), str(error)) from error
