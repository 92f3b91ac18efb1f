"""Writes `mjpg`: MJPEG video in an AVI container."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.format.channels import jpeg
from rover_pipeline.format.channels.base import EncodedWriter, sync_file
from rover_pipeline.format.meta import ChannelSpec

#: Frame rate in the container. Real times are in the channel `ts`.
NOMINAL_RATE = 30


class MjpgWriter(EncodedWriter):
    """Encodes frames one by one. FFmpeg puts them into an AVI file."""

    def __init__(self, path: Path, spec: ChannelSpec) -> None:
        super().__init__(path, spec)
        if problem := jpeg.check_spec(spec.shape, spec.type):
            raise FormatError(f"{path}: {problem}")
        path.open("xb").close()  # fails when the file exists, which FFmpeg would overwrite
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
        packet = av.Packet(data)
        packet.stream = self._stream
        packet.pts = packet.dts = number
        packet.time_base = Fraction(1, NOMINAL_RATE)
        packet.is_keyframe = True
        self._container.mux(packet)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._container.start_encoding()  # without this, a video without frames would have no header
            self._container.close()
            sync_file(self.path)
