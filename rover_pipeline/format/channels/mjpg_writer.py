"""Writes `mjpg`: MJPEG video in an AVI container."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av

from rover_pipeline.format.channels import jpeg
from rover_pipeline.format.channels.base import EncodedWriter, sync_file
from rover_pipeline.format.meta import ChannelSpec

#: Frame rate in the container. Real times are in the channel `ts`. Layout.
NOMINAL_RATE = 30


class MjpgWriter(EncodedWriter):
    """Encodes frames one by one. FFmpeg puts them into an AVI file."""

    encode = staticmethod(jpeg.encode)

    def __init__(self, path: Path, spec: ChannelSpec) -> None:
        super().__init__(path, spec)
        jpeg.check_spec(path, spec)
        path.open("xb").close()  # fails when the file exists, which FFmpeg would overwrite
        self._container = av.open(str(path), "w", format="avi")
        self._stream = self._container.add_stream("mjpeg", rate=NOMINAL_RATE)
        self._stream.height, self._stream.width = spec.shape[:2]
        self._stream.pix_fmt = "yuvj420p"
        self._open = True

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
