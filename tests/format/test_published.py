"""Our reader opens stored bytes of the published format: it does not only open what our own writer made.

They were written from the facts of the format because the roverd package cannot be installed here; `fixtures/README.md`
says how they were compared with the source code of its writer.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.format.meta import FORMATS
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.trace import Trace
from rover_pipeline.validation.check import problems
from tests.format.published import FRAMES, META, samples

TRACE = Path(__file__).parent / "fixtures" / "roverd"
CHANNELS = [(sensor, channel) for sensor, channels in META.items() for channel in channels]
#: Levels of 256 by which OpenCV's JPEG files and video may differ from the smooth pictures they were made from.
JPEG_TOLERANCE = 8


@pytest.mark.parametrize(("sensor", "name"), CHANNELS)
def test_every_channel_holds_the_samples_that_were_written(sensor: str, name: str) -> None:
    channel, expected = Sensor(TRACE / sensor).channel(name), samples(sensor, name)
    tolerance = JPEG_TOLERANCE if channel.spec.format in ("mjpg", "jpg") else 0
    assert len(channel) == FRAMES and channel.leftover == "" and channel.notes == []
    for start, stop in ((0, FRAMES), (1, 3), (FRAMES - 1, FRAMES)):
        values = channel.read(start, stop)
        assert values.dtype == expected.dtype and values.shape == expected[start:stop].shape
        assert np.abs(values.astype("f8") - expected[start:stop]).max() <= tolerance


def test_every_format_is_among_the_fixtures() -> None:
    assert {META[sensor][channel]["format"] for sensor, channel in CHANNELS} == set(FORMATS)


def test_the_fixtures_are_a_trace_without_problems() -> None:
    assert Trace(TRACE).sensors() == ["camera", "imu", "lidar", "radar", "_camera"]
    assert list(problems(TRACE)) == []


def test_both_spellings_of_a_description_and_the_arguments_of_a_channel_are_read() -> None:
    lidar, derived = Sensor(TRACE / "lidar").specs, Sensor(TRACE / "_camera").specs
    assert (lidar["ts"].desc, lidar["ts"].description) == (None, "Timestamp, in seconds.")
    assert (lidar["rng"].desc, lidar["rng"].description) == ("Range, in millimeters", None)
    assert derived["depth"].args == {"compress": True} and derived["mask"].args is None


def test_the_index_of_a_frame_wise_compressed_channel_ends_at_the_size_of_its_file() -> None:
    offsets = np.fromfile(TRACE / "lidar" / "rng_i", "<u8")
    assert len(offsets) == FRAMES + 1 and offsets[0] == 0
    assert offsets[-1] == (TRACE / "lidar" / "rng").stat().st_size
