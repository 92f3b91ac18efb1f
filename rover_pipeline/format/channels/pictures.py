"""Common parts of `mjpg` and `jpg`: pictures that can be decoded smaller than they are stored."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Self

import numpy as np

from rover_pipeline.format.channels import jpeg
from rover_pipeline.format.channels.base import Channel


class PictureChannel(Channel):
    """Samples are RGB pictures, u1 (height, width, 3), each stored as a JPEG."""

    _factor = 1
    _stored_shape: tuple[int, ...] = ()

    @abstractmethod
    def jpeg(self, frame: int) -> bytes:
        """The stored bytes of a frame, a JPEG file."""

    def reduced(self, factor: int) -> Self:
        """The same channel with width and height 1, 2, 4 or 8 times smaller, which is faster to decode."""
        smaller = copy.copy(self)
        smaller._stored_shape, smaller._factor = self.spec.shape, factor
        smaller.spec = self.spec.model_copy(update={"shape": jpeg.reduced(self.spec.shape, factor)})
        return smaller

    def _check_spec(self) -> None:
        if problem := jpeg.check_spec(self.spec.shape, self.spec.type):
            raise self.fail(problem)

    def _picture(self, data: bytes) -> np.ndarray:
        return jpeg.decode(data, self._stored_shape or self.spec.shape, self._factor)
