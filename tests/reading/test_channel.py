"""A channel reads as the array of all its samples does, whatever its format, and reads no more than it is asked for."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rover_pipeline as rp
from rover_pipeline.errors import FormatError, RoverError, SampleIndexError
from rover_pipeline.format.descriptions import axes_of, unit_of
from rover_pipeline.format.meta import ChannelSpec
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.table import TABLE
from tests.kit import small_trace, times

FRAMES = 11
FORMATS = ("raw", "lzma", "lzmaf", "npz")
#: A key for each way in which numpy's arrays are indexed.
KEYS: list[Any] = [
    0, -1, 10, np.int32(4), np.array(3), slice(None), slice(2, 5), slice(None, None, 3), slice(None, None, -1),
    slice(8, 2, -2), slice(5, 5), slice(-3, 99), [4, 4, 0, -1], [], np.array([9, 2]), np.arange(FRAMES) % 3 == 0, ...,
    (3, 1), (slice(2, 9), 0), (slice(None), slice(1, 3), 2), (..., 1), (-2, ..., 0), ([1, 5], [0, 2], 1),
    (slice(1, 4), [0, 2]), (4, None), range(2, 8, 2),
]  # fmt: skip


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with a sensor that has the same values in every format."""
    path = small_trace(tmp_path_factory.mktemp("channels") / "trace", FRAMES, sensors=("lidar", "camera"))
    specs = {TS: TS_SPEC, VALID: VALID_SPEC}
    specs |= {name: ChannelSpec(format=name, type="i4", shape=(3, 4)) for name in FORMATS}
    with SensorWriter(path / "_all", specs) as writer:
        valid = (np.arange(FRAMES) != 4).astype("u1")
        writer.append(**{TS: times(FRAMES), VALID: valid}, **dict.fromkeys(FORMATS, values()))
    return path


def values() -> np.ndarray:
    return np.arange(FRAMES * 12, dtype="i4").reshape(FRAMES, 3, 4)


@pytest.mark.parametrize("format", FORMATS)
def test_every_index_means_what_it_means_in_numpy(trace: Path, format: str) -> None:
    channel, whole = rp.open(trace)["_all"][format], values()
    for key in KEYS:
        np.testing.assert_array_equal(channel[key], whole[key], err_msg=str(key))
    np.testing.assert_array_equal(np.asarray(channel), whole)
    np.testing.assert_array_equal(np.asarray(channel, "f8"), whole)
    np.testing.assert_array_equal(list(channel), whole)
    assert (len(channel), channel.shape, channel.nbytes) == (FRAMES, whole.shape, whole.nbytes)
    assert channel.dtype == np.dtype("i4")


@pytest.mark.parametrize(
    "key",
    [FRAMES, -FRAMES - 1, [0, FRAMES], 1.0, "a", True, [1.5], np.ones(3, bool), np.ones(FRAMES, "u1"), (0, 7), None,
     slice(0.5, 2), [[1]], (..., ...)],
)  # fmt: skip
@pytest.mark.parametrize("format", ["raw", "lzmaf"])
def test_what_selects_no_sample_is_an_index_error_of_one_line(trace: Path, format: str, key: Any) -> None:
    with pytest.raises(SampleIndexError) as caught:
        rp.open(trace)["_all"][format][key]
    assert isinstance(caught.value, IndexError) and isinstance(caught.value, rp.RoverError)
    assert "\n" not in str(caught.value) and str(trace / "_all" / format) in str(caught.value)


def test_a_slice_of_a_raw_channel_of_terabytes_is_read_alone(tmp_path: Path) -> None:
    frame = 4 * 8 * 4 * 4096 * 2
    trace = small_trace(tmp_path / "trace", 6, sensors=("radar",), iq_shape=(4, 8, 4, 4096))
    count = 1_000_000
    for name, size in (("iq", frame), ("ts", 8), ("valid", 1)):  # holes of the file, which no disk could fill
        os.truncate(trace / "radar" / name, count * size)
    iq = rp.open(trace)["radar"].iq
    assert iq.nbytes > 10**12 and iq[3:5].shape == (2, 4, 8, 4, 4096)
    assert not iq[count - 1].any() and iq[::200_000, 0, 0, 0].shape == (5, 4096)


def test_decoding_more_than_the_machine_has_is_refused(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sensor = rp.open(trace)["_all"]
    monkeypatch.setattr(os, "sysconf", lambda name: 20)
    with pytest.raises(FormatError, match="read them in slices"):
        np.asarray(sensor.npz)
    assert sensor.npz[2:4].shape == (2, 3, 4)


def test_raw_samples_are_read_only_views_and_take_gives_an_array_of_ones_own(trace: Path) -> None:
    channel = rp.open(trace)["_all"].raw
    with pytest.raises(ValueError, match="read-only"):
        channel[2][0] = 1
    own = channel.take(2)
    own[:] = -1
    assert (channel[2] == values()[2]).all()


def test_a_mask_from_valid_selects_and_the_stored_flags_are_refused(trace: Path) -> None:
    sensor = rp.open(trace)["_all"]
    assert sensor.raw[sensor.valid].shape[0] == FRAMES - 1 and sensor.valid.dtype == bool
    with pytest.raises(SampleIndexError, match=r"use `\.valid`"):
        sensor.raw[sensor["valid"][:]]


def test_a_channel_reads_the_same_after_pickling_and_closing(trace: Path) -> None:
    opened = rp.open(trace)
    for name in FORMATS:
        channel = opened["_all"][name]
        before = channel[3].copy()
        again = pickle.loads(pickle.dumps(channel))
        opened.close()
        np.testing.assert_array_equal(again[3], before)
        np.testing.assert_array_equal(channel[3], before)


def test_channels_that_are_mapped_do_not_use_up_the_files_of_a_process(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rover_pipeline.reading.channel._MAX_MAPPED", 4)
    channels = [rp.open(trace)["_all"].raw for _ in range(60)]
    before = len(os.listdir("/proc/self/fd"))
    assert all(channel[1, 0, 0] == 12 for _ in range(2) for channel in channels)
    assert len(os.listdir("/proc/self/fd")) - before < 10


def test_pictures_are_decoded_smaller(trace: Path) -> None:
    video = rp.open(trace)["camera"].video
    assert video.reduced(2)[3].shape == (video.shape[1] // 2, video.shape[2] // 2, 3)
    whole = video[3].reshape(video.shape[1] // 2, 2, -1, 2, 3).mean((1, 3))
    assert np.abs(video.reduced(2)[3] - whole).mean() < 3
    with pytest.raises(FormatError, match="only pictures"):
        rp.open(trace)["lidar"].rng.reduced(2)
    with pytest.raises(RoverError, match="smaller, not 3"):
        video.reduced(3)


def test_descriptions_tell_the_axes_and_units_that_the_table_declares() -> None:
    # One description of `_sync` serves numbers and times; a spectrum is in dB when so configured.
    other = {("_sync", "*"), ("_radar_spectrum", "spectrum")}
    for step in TABLE.values():
        for name, output in step.outputs.items():
            assert axes_of(output.desc) == output.axes
            assert (step.sensor, name) in other or unit_of(output.desc) == output.unit, f"{step.sensor}/{name}"
    assert (
        unit_of("Feet and velocity in the world, m, m/s. [body, x]") == "" and unit_of("Range, in millimeters") == "mm"
    )


def test_a_recorded_channel_without_a_description_has_its_axes_and_unit(trace: Path) -> None:
    opened = rp.open(trace)
    assert opened["lidar"].rng.axes == ("sample", "beam", "column") and opened["lidar"].rng.unit == "mm"
    assert opened["_all"].raw.axes == ("sample", "axis_1", "axis_2") and opened["_all"].raw.unit == ""
    assert "beam: 8" in repr(opened["lidar"].rng)


@pytest.mark.parametrize(
    "calculation",
    [
        lambda channel: channel - 1,
        lambda channel: 1 - channel,
        lambda channel: channel * channel,
        lambda channel: 2**channel,
        lambda channel: -channel,
        lambda channel: channel > 3,
        lambda channel: channel @ channel,
        lambda channel: channel & 1,
    ],
)
def test_calculating_with_a_channel_tells_to_read_it_first(trace: Path, calculation: Any) -> None:
    channel = rp.open(trace)["_all"].raw
    with pytest.raises(TypeError, match=r"_all/raw.* is an array on the disk: write channel\[:\]"):
        calculation(channel)
    assert calculation(channel[:1, :, :3].reshape(3, 3)) is not None and np.abs(channel).shape == channel.shape
