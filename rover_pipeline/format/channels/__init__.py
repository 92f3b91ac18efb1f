"""The six channel formats, one module each. A module is imported by the first channel of its format."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.format.channels.base import Channel, ChannelWriter
from rover_pipeline.format.meta import ChannelSpec

__all__ = ["Channel", "ChannelWriter", "create_channel", "encode_sample", "open_channel"]

#: Writers in a module of their own: PyAV takes 0.1 s to import, and a reader of video does not need it.
_WRITER_MODULES = {"mjpg": "mjpg_writer"}


def open_channel(path: Path, spec: ChannelSpec) -> Channel:
    """The channel stored at `path`, for reading. Raises FormatError when it is missing or cannot be used."""
    return _load(spec.format, f"{spec.format.capitalize()}Channel")(path, spec)


def create_channel(path: Path, spec: ChannelSpec) -> ChannelWriter:
    """A new channel for appending at `path`, which must not exist."""
    return _writer(spec.format)(path, spec)


def encode_sample(format: str, sample: np.ndarray) -> bytes:
    """One sample as the per-sample formats (`lzmaf`, `mjpg`, `npz`, `jpg`) store it."""
    return _writer(format).encode(sample)


def _writer(format: str) -> Any:
    return _load(_WRITER_MODULES.get(format, format), f"{format.capitalize()}Writer")


def _load(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
