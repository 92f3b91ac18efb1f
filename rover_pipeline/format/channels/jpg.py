"""`jpg`: a folder of JPEG pictures, RGB."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.format.channels import jpeg
from rover_pipeline.format.channels.blob import BlobChannel, BlobWriter
from rover_pipeline.format.meta import ChannelSpec


class JpgChannel(BlobChannel):
    suffix = "jpg"

    def _open(self) -> int:
        if problem := jpeg.check_spec(self.spec.shape, self.spec.type):
            raise self.fail(problem)
        return super()._open()

    def _decode(self, path: Path) -> np.ndarray:
        return jpeg.decode(path.read_bytes(), self.spec.shape)


class JpgWriter(BlobWriter):
    suffix = "jpg"

    def __init__(self, path: Path, spec: ChannelSpec) -> None:
        if problem := jpeg.check_spec(spec.shape, spec.type):
            raise FormatError(f"{path}: {problem}")
        super().__init__(path, spec)

    @staticmethod
    def encode(sample: np.ndarray) -> bytes:
        return jpeg.encode(sample)
