"""The six channel formats, one file each. Heavy codecs are imported by the first channel that needs them."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.format.channels.base import Channel, ChannelWriter
from rover_pipeline.format.meta import ChannelSpec

__all__ = ["Channel", "ChannelWriter", "create_channel", "encode_sample", "open_channel"]


def open_channel(path: Path, spec: ChannelSpec) -> Channel:
    """The channel stored at `path`, for reading. Raises FormatError when it is missing or unusable."""
    return _codec(spec.format, "Channel")(path, spec)


def create_channel(path: Path, spec: ChannelSpec) -> ChannelWriter:
    """A new channel at `path`, which must not exist, for appending."""
    return _codec(spec.format, "Writer")(path, spec)


def encode_sample(format: str, sample: np.ndarray) -> bytes:
    """One sample as the per-sample formats (`lzmaf`, `mjpg`, `npz`, `jpg`) store it."""
    return _codec(format, "Writer").encode(sample)


def _codec(format: str, role: str) -> Any:
    module = importlib.import_module(f"rover_pipeline.format.channels.{format}")
    return getattr(module, format.capitalize() + role)
