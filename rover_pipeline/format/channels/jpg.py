"""`jpg`: a folder of JPEG pictures, RGB."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rover_pipeline.format.channels import jpeg
from rover_pipeline.format.channels.blob import BlobChannel, BlobWriter
from rover_pipeline.format.files import regular_size
from rover_pipeline.format.meta import ChannelSpec


class JpgChannel(jpeg.PictureChannel, BlobChannel):
    suffix = "jpg"

    def _open(self) -> int:
        jpeg.check_spec(self.path, self.spec)
        return super()._open()

    def jpeg(self, frame: int) -> bytes:
        return self._stored(self.file(frame))

    def stored_bytes(self, frame: int) -> int:
        return regular_size(self.file(frame))

    def _decode(self, path: Path) -> np.ndarray:
        return self._picture(self._stored(path))


class JpgWriter(BlobWriter):
    suffix = "jpg"
    encode = staticmethod(jpeg.encode)

    def __init__(self, path: Path, spec: ChannelSpec) -> None:
        jpeg.check_spec(path, spec)
        super().__init__(path, spec)
