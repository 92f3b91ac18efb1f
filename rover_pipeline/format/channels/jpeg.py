"""JPEG pictures, the samples of the `mjpg` and `jpg` formats. Our arrays are RGB, those of OpenCV are BGR.

An orientation tag in a JPEG is ignored, because the intrinsics refer to the pixels as the camera stored them.
"""

from __future__ import annotations

import copy
import struct
from abc import abstractmethod
from array import array
from pathlib import Path
from typing import Self

import cv2
import numpy as np
import simplejpeg

from rover_pipeline.errors import FormatError
from rover_pipeline.format.channels.base import MAX_STORED, Channel, note_place
from rover_pipeline.format.channels.blob import BlobChannel, BlobWriter
from rover_pipeline.format.files import opened_file, opened_regular, read_exactly, regular_size
from rover_pipeline.format.meta import ChannelSpec

#: Factors by which the decoder can reduce width and height of a picture. Layout.
FACTORS = (1, 2, 4, 8)
#: Markers: the second byte after 0xFF. Segments with a length begin with the frame headers. Layout.
_FIRST_SEGMENT, _RESTARTS, _BEGIN, _END, _SCAN = 0xC0, range(0xD0, 0xD8), 0xD8, 0xD9, 0xDA


def png_size(data: bytes) -> tuple[int, int] | None:
    """(height, width) of a PNG from its header (ISO/IEC 15948, 11.2.2), before it is decoded; None = it is none."""
    if data[:8] != b"\x89PNG\r\n\x1a\n" or data[12:16] != b"IHDR":
        return None
    return int.from_bytes(data[20:24], "big"), int.from_bytes(data[16:20], "big")


def encode(sample: np.ndarray) -> bytes:
    """u1 RGB, (height, width, 3), as a JPEG file."""
    done, data = cv2.imencode(".jpg", cv2.cvtColor(sample, cv2.COLOR_RGB2BGR))
    if not done:
        raise ValueError("OpenCV could not encode the image")
    return data.tobytes()


def decode(data: bytes, shape: tuple[int, ...], factor: int = 1, colours: int = 3) -> np.ndarray:
    """A JPEG file of the given (height, width, 3) as u1 RGB, or grey, `factor` times smaller: see `reduced`.

    Damage for which libjpeg only warns, and then decodes grey or shifted blocks, is an error here. Damage that keeps
    the number of blocks cannot be detected. Raises ValueError where the data are not a whole JPEG of that size.
    """
    # The decoder would fill the missing part of a truncated picture with grey.
    if not data.startswith(b"\xff\xd8"):
        raise ValueError("does not begin like a JPEG")
    if b"\xff\xd9" not in data[-64:]:
        raise ValueError("is a JPEG without its end")
    size = frame_size(data)
    if size is None:
        raise ValueError("does not say how large it is: its headers are damaged")
    if size != tuple(shape[:2]):
        raise ValueError(f"is a JPEG of {size}, not {list(shape[:2])} (height, width)")
    height, width, _ = reduced(shape, factor)
    space = "RGB" if colours == 3 else "GRAY"
    try:
        image = simplejpeg.decode_jpeg(data, space, min_height=height, min_width=width, min_factor=factor)
    except ValueError as error:
        raise ValueError(f"cannot be decoded: {error}") from error
    if image.shape != (height, width, colours):
        raise ValueError(f"decodes to {list(image.shape)}, not {[height, width, colours]}")
    return image


def reduced(shape: tuple[int, ...], factor: int) -> tuple[int, int, int]:
    """Shape of a picture of the given (height, width, 3) after decoding it 1, 2, 4 or 8 times smaller.

    libjpeg then makes fewer pixels from each block of 8 x 8, by scaled transforms that average (ITU-T T.81 leaves this
    to the decoder). This is faster than decoding the whole picture.
    """
    if factor not in FACTORS:
        raise ValueError(f"a JPEG is decoded {FACTORS} times smaller, not {factor}")
    return -(-shape[0] // factor), -(-shape[1] // factor), 3


def frame_size(data: bytes) -> tuple[int, int] | None:
    """(height, width) from the frame header (ITU-T T.81, B.2.2); None when there is none.

    It is read before decoding, so that a damaged header cannot request gigabytes of memory.
    """
    position = 2
    while position + 9 <= len(data) and data[position] == 0xFF:
        marker, length = data[position + 1], int.from_bytes(data[position + 2 : position + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height = int.from_bytes(data[position + 5 : position + 7], "big")
            return height, int.from_bytes(data[position + 7 : position + 9], "big")
        position += 2 + length
    return None


def marker_problem(data: bytes) -> str:
    """What is wrong with the markers of a JPEG file (ITU-T T.81, B.1 and B.2); empty if nothing is.

    It finds a picture that lacks a part, or has bytes of another one, in a twentieth of the time that decoding takes.
    Wrong bits between the markers are not found.
    """
    values = np.frombuffer(data, np.uint8)
    position, scans = 2, 0
    while position + 2 <= len(data):
        if data[position] != 0xFF:
            return f"byte {position:,} is no marker"
        marker = data[position + 1]
        if marker == 0xFF:  # fills up
            position += 1
            continue
        if marker == _END:
            return "" if scans else "headers are followed by no picture"
        length = int.from_bytes(data[position + 2 : position + 4], "big")
        if marker < _FIRST_SEGMENT or marker in (*_RESTARTS, _BEGIN) or length < 2 or position + 2 + length > len(data):
            return f"byte {position:,} begins no part of a picture"
        position += 2 + length
        if marker == _SCAN:
            scans += 1
            # Within a scan, 0xFF is followed by zero, by a restart marker, or by the marker that ends the scan.
            places = np.flatnonzero(values[position:-1] == 0xFF) + position
            after = values[places + 1]
            places, after = places[(after != 0) & (after != 0xFF)], after[(after != 0) & (after != 0xFF)]
            is_end = (after < _RESTARTS[0]) | (after > _RESTARTS[-1])
            if not is_end.any():
                return "last part has no end"
            end = int(is_end.argmax())
            if ((after[:end] - _RESTARTS[0]) != np.arange(end) % len(_RESTARTS)).any():
                return f"part from byte {position:,} on lacks a piece: its restart markers are out of order"
            position = int(places[end])
    return "last part has no end"


def check_spec(path: Path, spec: ChannelSpec) -> None:
    """Raise FormatError when the channel at `path` cannot hold RGB pictures."""
    if spec.type != "u1" or len(spec.shape) != 3 or spec.shape[2] != 3:
        problem = f"holds RGB pictures: u1 of [height, width, 3], not {spec.type} of {list(spec.shape)}"
        raise FormatError(f"{path}: {problem}")


class PictureChannel(Channel):
    """Samples are RGB pictures, u1 (height, width, 3), each stored as a JPEG that can be decoded smaller."""

    _factor = 1
    _stored_shape: tuple[int, ...] = ()

    @abstractmethod
    def jpeg(self, frame: int) -> bytes:
        """The stored bytes of a frame, a JPEG file."""

    @abstractmethod
    def stored_bytes(self, frame: int) -> int:
        """The size of that file."""

    def repeats(self) -> np.ndarray:
        """Which frames are the frame before them, byte for byte, bool (frame,). Hardly any others have one size."""
        sizes = np.array([self.stored_bytes(frame) for frame in range(len(self))])
        same = np.zeros(len(self), bool)
        for frame in (np.flatnonzero(np.diff(sizes) == 0) + 1).tolist():
            same[frame] = self.jpeg(frame) == self.jpeg(frame - 1)
        return same

    def reduced(self, factor: int, colours: int = 3) -> Self:
        """The same channel, or (with 1 colour) its greys, 1, 2, 4 or 8 times narrower and lower: faster to decode."""
        smaller = copy.copy(self)
        smaller._stored_shape, smaller._factor = self.spec.shape, factor
        smaller.spec = self.spec.model_copy(update={"shape": (*reduced(self.spec.shape, factor)[:2], colours)})
        return smaller

    def _picture(self, data: bytes) -> np.ndarray:
        return decode(data, self._stored_shape or self.spec.shape, self._factor, self.spec.shape[2])


class JpgChannel(PictureChannel, BlobChannel):
    """A folder of pictures."""

    suffix = "jpg"

    def _open(self) -> int:
        check_spec(self.path, self.spec)
        return super()._open()

    def jpeg(self, frame: int) -> bytes:
        return self._stored(self.file(frame))

    def stored_bytes(self, frame: int) -> int:
        return regular_size(self.file(frame))

    def _decode(self, path: Path) -> np.ndarray:
        return self._picture(self._stored(path))


class JpgWriter(BlobWriter):
    """Appends pictures to such a folder."""

    suffix = "jpg"
    encode = staticmethod(encode)

    def __init__(self, path: Path, spec: ChannelSpec) -> None:
        check_spec(path, spec)
        super().__init__(path, spec)


#: Bytes of the container that are read at once while chunks are counted: a page, of which a frame has many. Schedule.
_BUFFER = 1 << 12
#: A chunk of sound, or a list, may come with every frame. Schedule.
_MAX_CHUNKS = 2 * MAX_STORED
#: No JPEG is smaller, bytes. A smaller chunk is a lost frame, or padding: a recording has few of them. Schedule.
_MIN_JPEG, _MAX_EMPTY = 100, 100_000


class MjpgChannel(PictureChannel):
    """MJPEG video in an AVI container: frames by number, located by reading its chunks one after another.

    This (AVI RIFF file reference, with the OpenDML extension for files above 1 GB) needs neither the sizes of the
    enclosing lists nor the index at the end, which an interrupted recording does not have. The frame rate is nominal.
    """

    def _open(self) -> int:
        check_spec(self.path, self.spec)
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
