"""Faults: each one causes the problem that it names, and a reader names the channel that has it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rover_pipeline.errors import FormatError, SampleError
from rover_pipeline.format.trace import Trace
from rover_pipeline.simulate.faults import FAULTS


def damaged(tiny: Path, directory: Path, fault: str) -> Trace:
    trace = directory / fault
    shutil.copytree(tiny, trace)
    FAULTS[fault](trace)
    return Trace(trace)


def read_all(trace: Trace) -> None:
    """Every channel of every raw sensor, strictly."""
    for name in ("camera", "imu", "lidar", "radar"):
        sensor = trace.sensor(name)
        count = sensor.length()
        sensor.times(count)
        for channel in sensor.specs:
            sensor.channel(channel).read(0, count)


def test_an_undamaged_recording_reads_without_an_error(tiny: Path) -> None:
    read_all(Trace(tiny))


@pytest.mark.parametrize(
    ("fault", "channel"),
    [
        ("power-cut", "camera/video.avi"),
        ("corrupt-lidar", "lidar/rng"),
        ("corrupt-video", "camera/video.avi"),
        ("missing-channel", "radar/valid"),
        ("wrong-shape", "lidar/rng"),
        ("times-out-of-order", "radar/ts"),
    ],
)
def test_a_strict_reader_names_the_damaged_channel(tiny: Path, tmp_path: Path, fault: str, channel: str) -> None:
    with pytest.raises(FormatError, match=channel):
        read_all(damaged(tiny, tmp_path, fault))


@pytest.mark.parametrize("sensor", ["lidar", "radar", "camera"])
def test_after_a_power_cut_whole_samples_remain_and_strict_readers_refuse(
    tiny: Path, tmp_path: Path, sensor: str
) -> None:
    trace = damaged(tiny, tmp_path, "power-cut")
    with pytest.raises(FormatError, match=sensor):
        trace.sensor(sensor).length()
    whole = Trace(tiny).sensor(sensor).length()
    common = trace.sensor(sensor).length(truncate=True)
    assert 0.6 * whole < common < whole
    for channel in trace.sensor(sensor).specs:
        trace.sensor(sensor).channel(channel).read(0, common)


@pytest.mark.parametrize(("fault", "sensor", "channel"), [
    ("corrupt-lidar", "lidar", "rng"), ("corrupt-video", "camera", "video.avi"),
])  # fmt: skip
def test_a_corrupt_channel_loses_one_sample_and_keeps_the_others(
    tiny: Path, tmp_path: Path, fault: str, sensor: str, channel: str
) -> None:
    corrupt = damaged(tiny, tmp_path, fault).sensor(sensor).channel(channel)
    bad = []
    for sample in range(len(corrupt)):
        try:
            corrupt.read(sample, sample + 1)
        except SampleError as error:
            bad.append(error.sample)
    assert bad == [len(corrupt) // 2]


def test_a_missing_index_is_rebuilt_from_the_samples(tiny: Path, tmp_path: Path) -> None:
    trace = damaged(tiny, tmp_path, "missing-index")
    channel = trace.sensor("lidar").channel("rng")
    assert any("rng_i" in note for note in channel.notes)
    assert (channel.read() == Trace(tiny).sensor("lidar").channel("rng").read()).all()


def test_missing_sidecars_leave_the_channels_readable(tiny: Path, tmp_path: Path) -> None:
    trace = damaged(tiny, tmp_path, "missing-sidecars")
    read_all(trace)
    assert not list(trace.path.glob("[a-z]*/[lrc]*.json"))
