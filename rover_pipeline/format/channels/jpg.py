"""`jpg`: a folder of JPEG pictures, RGB."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.format.channels import jpeg
from rover_pipeline.format.channels.blob import BlobChannel, BlobWriter
from rover_pipeline.format.channels.pictures import PictureChannel
from rover_pipeline.format.meta import ChannelSpec


class JpgChannel(PictureChannel, BlobChannel):
    suffix = "jpg"

    def _open(self) -> int:
        self._check_spec()
        return super()._open()

    def jpeg(self, frame: int) -> bytes:
        return self.file(frame).read_bytes()

    def _decode(self, path: Path) -> np.ndarray:
        return self._picture(path.read_bytes())


class JpgWriter(BlobWriter):
    suffix = "jpg"

    def __init__(self, path: Path, spec: ChannelSpec) -> None:
        if problem := jpeg.check_spec(spec.shape, spec.type):
            raise FormatError(f"{path}: {problem}")
        super().__init__(path, spec)

    @staticmethod
    def encode(sample: np.ndarray) -> bytes:
        return jpeg.encode(sample)
