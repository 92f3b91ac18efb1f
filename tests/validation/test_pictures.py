"""What a quick check finds in pictures, and what only the whole check does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rover_pipeline.format.channels.mjpg import MjpgChannel
from rover_pipeline.format.meta import ChannelSpec
from rover_pipeline.format.sensor import TS, TS_SPEC, Sensor, SensorWriter
from rover_pipeline.validation.check import problems

FRAMES, SHAPE = 24, (48, 64, 3)


def trace(tmp_path: Path) -> Path:
    """A trace with pictures of noise."""
    pictures = np.random.default_rng(1).integers(0, 256, (FRAMES, *SHAPE), "u1")
    spec = ChannelSpec(format="mjpg", type="u1", shape=SHAPE)
    with SensorWriter(tmp_path / "camera", {TS: TS_SPEC, "video.avi": spec}) as writer:
        writer.append(**{TS: 1.7e9 + np.arange(FRAMES) / 30, "video.avi": pictures})
    (tmp_path / "config.yaml").touch()
    return tmp_path


def overwrite(path: Path, frame: int, share: float, data: bytes) -> None:
    """Overwrite a part of a stored picture, at a share of its length; from its end at 1."""
    video = Sensor(path / "camera").channel("video.avi")
    assert isinstance(video, MjpgChannel)
    stored = video.jpeg(frame)
    content = (path / "camera" / "video.avi").read_bytes()
    at = content.index(stored) + min(int(share * len(stored)), len(stored) - len(data))
    (path / "camera" / "video.avi").write_bytes(content[:at] + data + content[at + len(data) :])


def found(path: Path, every: int) -> list[str]:
    return [line for line in problems(path, every=every) if "video.avi: sample" in line]


def test_every_picture_that_is_cut_off_is_found_without_decoding_it(tmp_path: Path) -> None:
    path = trace(tmp_path)
    assert not found(path, 8)
    overwrite(path, 13, 1.0, bytes(300))
    (quick,), (whole,) = found(path, 8), found(path, 1)
    assert quick == whole and "sample 13 at byte" in quick and "without its end" in quick


def test_wrong_bits_are_found_in_the_pictures_that_are_decoded(tmp_path: Path) -> None:
    path = trace(tmp_path)
    wrong = b"\xff\x00" * 40
    overwrite(path, 13, 0.5, wrong)
    assert not found(path, 8) and found(path, 1)
    overwrite(path, 16, 0.5, wrong)
    (line,) = found(path, 8)
    assert "sample 16 at byte" in line and "cannot be decoded" in line
