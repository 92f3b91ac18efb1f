"""The six channel formats. Their modules are imported by the first channel of the format."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.format.channels.base import Channel, ChannelWriter
from rover_pipeline.format.meta import ChannelSpec

__all__ = ["Channel", "ChannelWriter", "create_channel", "encode_sample", "open_channel"]

#: Modules that are not called like the format. PyAV takes 0.1 s to import, and a reader of video does not need it.
_MODULES = {"raw": "base", "jpg": "jpeg", "mjpg": "jpeg", "lzma": "lzmaf", "mjpgWriter": "mjpg_writer"}


def open_channel(path: Path, spec: ChannelSpec) -> Channel:
    """The channel stored at `path`, for reading. Raises FormatError when it is missing or cannot be used."""
    return _load(spec.format, "Channel")(path, spec)


def create_channel(path: Path, spec: ChannelSpec) -> ChannelWriter:
    """A new channel for appending at `path`, which must not exist."""
    return _load(spec.format, "Writer")(path, spec)


def encode_sample(format: str, sample: np.ndarray) -> bytes:
    """One sample as the per-sample formats (`lzmaf`, `mjpg`, `npz`, `jpg`) store it."""
    return _load(format, "Writer").encode(sample)


def _load(format: str, kind: str) -> Any:
    name = _MODULES.get(f"{format}{kind}") or _MODULES.get(format, format)
    module = importlib.import_module(f"{__name__}.{name}")
    return getattr(module, f"{format.capitalize()}{kind}")
