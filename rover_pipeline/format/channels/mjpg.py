"""Reads `mjpg`: MJPEG video in an AVI container. Times come from `ts`; the frame rate of the container is nominal."""

from __future__ import annotations

import os
import struct

import numpy as np

from rover_pipeline.format.channels import jpeg
from rover_pipeline.format.channels.base import opened, read_exactly


class MjpgChannel(jpeg.PictureChannel):
    """Frames by number, which are located by reading the container's chunks one after another.

    This (AVI RIFF file reference, with the OpenDML extension for files above 1 GB) needs neither the sizes of the
    enclosing lists nor the index at the end, which an interrupted recording does not have.
    """

    def _open(self) -> int:
        jpeg.check_spec(self.path, self.spec)
        frames: list[tuple[int, int]] = []
        size = os.stat(self.path).st_size
        position = 0
        with opened(self.path) as descriptor:
            if read_exactly(descriptor, 12, 0)[:4] != b"RIFF":
                raise self.fail("byte 0: is not an AVI file (no RIFF header)")
            while position + 8 <= size:
                header = read_exactly(descriptor, 12, position)
                kind, length = header[:4], struct.unpack("<I", header[4:8])[0]
                if kind == b"RIFF" or (kind == b"LIST" and header[8:12] in (b"movi", b"rec ")):
                    position += 12  # its content follows
                    continue
                if not all(32 <= byte < 127 for byte in kind) or position + 8 + length > size:
                    self.leftover = f"the bytes from {position} to the end, {size - position:,}, are no whole frame"
                    break
                if kind[2:] in (b"dc", b"db") and kind[:2].isdigit():
                    frames.append((position + 8, length))
                position += 8 + length + length % 2
        self._frames = np.asarray(frames, np.int64).reshape(-1, 2)
        return len(frames)

    def jpeg(self, frame: int) -> bytes:
        offset, length = self._frames[frame]
        with opened(self.path) as descriptor:
            return read_exactly(descriptor, int(length), int(offset))

    def _read(self, start: int, stop: int, out: np.ndarray) -> None:
        for i in range(start, stop):
            try:
                out[i - start] = self._picture(self.jpeg(i))
            except ValueError as error:
                raise self.fail_at(i, int(self._frames[i][0]), str(error)) from error
