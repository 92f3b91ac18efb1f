"""`mjpg`: MJPEG video in an AVI container. Time comes from `ts`; the container's frame rate is nominal."""

from __future__ import annotations

import os
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.format.channels import jpeg
from rover_pipeline.format.channels.base import EncodedWriter, opened, read_exactly, sync_file
from rover_pipeline.format.channels.pictures import PictureChannel
from rover_pipeline.format.meta import ChannelSpec

NOMINAL_RATE = 30


class MjpgChannel(PictureChannel):
    """Frames by number, found by walking the container's chunks.

    The walk (AVI RIFF file reference, with the OpenDML extension for files above 1 GB) uses neither the sizes of
    the enclosing lists nor the index at the end, which an interrupted recording does not have.
    """

    def _open(self) -> int:
        self._check_spec()
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
                if not _plausible(kind) or position + 8 + length > size:
                    self.leftover = f"the bytes from {position} to the end, {size - position:,}, are no whole frame"
                    break
                if kind[2:] in (b"dc", b"db") and kind[:2].isdigit():
                    frames.append((position + 8, length))
                position += 8 + length + length % 2
        self._frames = np.asarray(frames, np.int64).reshape(-1, 2)
        return len(frames)

    def jpeg(self, frame: int) -> bytes:
        """The frame as it is stored, a JPEG file."""
        offset, length = self._frames[frame]
        with opened(self.path) as descriptor:
            return read_exactly(descriptor, int(length), int(offset))

    def _read(self, start: int, stop: int, out: np.ndarray) -> None:
        for i in range(start, stop):
            try:
                out[i - start] = self._picture(self.jpeg(i))
            except ValueError as error:
                raise self.fail_at(i, int(self._frames[i][0]), str(error)) from error


class MjpgWriter(EncodedWriter):
    """Encodes frames one by one and has FFmpeg put them in an AVI."""

    def __init__(self, path: Path, spec: ChannelSpec) -> None:
        super().__init__(path, spec)
        if problem := jpeg.check_spec(spec.shape, spec.type):
            raise FormatError(f"{path}: {problem}")
        import av  # 0.1 s that only writers of video pay

        path.open("xb").close()  # FFmpeg would replace what is there
        self._packet = av.Packet
        self._container = av.open(str(path), "w", format="avi")
        stream = self._container.add_stream("mjpeg", rate=NOMINAL_RATE)
        stream.height, stream.width = spec.shape[:2]
        stream.pix_fmt = "yuvj420p"
        self._stream = stream
        self._open = True

    @staticmethod
    def encode(sample: np.ndarray) -> bytes:
        return jpeg.encode(sample)

    def _put(self, data: bytes, number: int) -> None:
        packet = self._packet(data)
        packet.stream = self._stream
        packet.pts = packet.dts = number
        packet.time_base = Fraction(1, NOMINAL_RATE)
        packet.is_keyframe = True
        self._container.mux(packet)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._container.start_encoding()  # writes the header also when there was no frame
            self._container.close()
            sync_file(self.path)


def _plausible(kind: bytes) -> bool:
    return len(kind) == 4 and all(32 <= byte < 127 for byte in kind)
