"""All channels of a sensor have as many samples as `ts`; errors name the channel and the sample."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.errors import FormatError
from rover_pipeline.format.meta import META
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor, SensorWriter, time_problem
from tests.kit import small_trace, spec_of, times


@pytest.fixture
def radar(tmp_path: Path) -> Path:
    return small_trace(tmp_path / "t", 6, sensors=["radar"]) / "radar"


def test_an_intact_sensor_has_as_many_samples_as_its_ts(radar: Path) -> None:
    sensor = Sensor(radar)
    assert sensor.length() == 6 == sensor.length(truncate=True)
    assert np.array_equal(sensor.times(6), times(6))
    assert sensor.valid(6).tolist() == [1, 1, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("channel", "size", "whole", "problem"),
    [
        ("iq", 5 * 2048, 5, "iq: has 5 samples where ts has 6"),
        ("iq", 5 * 2048 + 7, 5, "iq: 10,247 bytes is not a whole number of 2,048-byte samples.*from byte 10240"),
        ("ts", 32, 4, "iq: has 6 samples where ts has 4"),
        ("ts", 33, 4, "ts: 33 bytes is not a whole number of 8-byte samples"),
        ("valid", 3, 3, "valid: has 3 samples where ts has 6"),
    ],
)
def test_a_truncated_channel_is_an_error_that_says_how_to_use_its_whole_samples(
    radar: Path, channel: str, size: int, whole: int, problem: str
) -> None:
    os.truncate(radar / channel, size)
    with pytest.raises(FormatError, match=f"{problem}.*set `input.truncate: true`"):
        Sensor(radar).length()
    assert Sensor(radar).length(truncate=True) == whole


def test_only_the_channels_that_are_used_have_to_agree(radar: Path) -> None:
    os.truncate(radar / VALID, 3)
    assert Sensor(radar).length(channels=("iq",)) == 6


@pytest.mark.parametrize("truncate", [False, True])
def test_a_sensor_without_a_single_sample_is_an_error(radar: Path, truncate: bool) -> None:
    for name in ("ts", "iq", "valid"):
        os.truncate(radar / name, 0)
    with pytest.raises(FormatError, match="ts: holds no samples"):
        Sensor(radar).length(truncate=truncate)


@pytest.mark.parametrize("truncate", [False, True])
def test_an_empty_channel_is_named_even_when_truncation_is_allowed(radar: Path, truncate: bool) -> None:
    os.truncate(radar / "iq", 0)
    with pytest.raises(FormatError, match="iq: holds no samples"):
        Sensor(radar).length(truncate=truncate)


@pytest.mark.parametrize(
    ("at", "value", "problem"),
    [
        (3, np.nan, "ts: sample 3 at byte 24: is nan, not a time"),
        (0, -np.inf, "ts: sample 0 at byte 0: is -inf, not a time"),
        (2, 0.0, "ts: sample 2 at byte 16: 0.000000 s does not come after 1700000000.1"),
        (4, times(6)[3], "ts: sample 4 at byte 32: 1700000000.300000 s does not come after 1700000000.300000 s"),
    ],
)
def test_impossible_times_are_named_by_sample_and_byte(radar: Path, at: int, value: float, problem: str) -> None:
    ts = times(6)
    ts[at] = value
    ts.tofile(radar / TS)
    with pytest.raises(FormatError, match=problem):
        Sensor(radar).times(6)


def test_strictly_increasing_times_have_no_problem() -> None:
    assert time_problem(times(1000)) == time_problem(times(1)) == time_problem(times(0)) == ""


def test_a_valid_that_is_neither_0_nor_1_is_named_by_sample_and_byte(radar: Path) -> None:
    np.array([1, 0, 1, 2, 255, 1], "u1").tofile(radar / VALID)
    with pytest.raises(FormatError, match="valid: sample 3 at byte 3: is 2, must be 0 or 1"):
        Sensor(radar).valid(6)
    assert Sensor(radar).valid(3).tolist() == [1, 0, 1], "samples that are not used are not checked"


def test_all_samples_of_a_sensor_without_the_channel_valid_are_valid(tmp_path: Path) -> None:
    imu = small_trace(tmp_path / "t", 4, sensors=["imu"]) / "imu"
    assert Sensor(imu).valid(4).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(("channel", "wrong"), [(TS, "f4"), (VALID, "u2")])
def test_ts_and_valid_of_another_type_are_refused(radar: Path, channel: str, wrong: str) -> None:
    content = json.loads((radar / META).read_text())
    content[channel]["type"] = wrong
    (radar / META).write_text(json.dumps(content))
    sensor = Sensor(radar)
    with pytest.raises(FormatError, match=rf"{channel}: must be .. of \[\], is {wrong} of \[\]"):
        sensor.times(3) if channel == TS else sensor.valid(3)


@pytest.mark.parametrize("channel", ["ts", "iq", "valid"])
def test_a_channel_without_its_file_is_named(radar: Path, channel: str) -> None:
    (radar / channel).unlink()
    with pytest.raises(FormatError, match=f"radar/{channel}: is listed in meta.json but {channel} is missing"):
        Sensor(radar).length()


def test_a_channel_that_is_not_listed_is_an_error_with_the_nearest_name(radar: Path) -> None:
    with pytest.raises(FormatError, match=r"radar: meta.json lists no channel 'vaild'; did you mean 'valid'\?"):
        Sensor(radar).channel("vaild")


def test_a_directory_in_place_of_a_file_is_an_error(radar: Path) -> None:
    (radar / "iq").unlink()
    (radar / "iq").mkdir()
    with pytest.raises(FormatError, match="iq"):
        Sensor(radar).channel("iq").read(0, 1)


def test_a_sensor_written_with_channels_of_unequal_length_never_gets_its_meta_json(tmp_path: Path) -> None:
    values = np.zeros((3, 2), "f4")
    writer = SensorWriter(tmp_path / "imu", {TS: TS_SPEC, "acc": spec_of(values)})
    writer.append(ts=times(2), acc=values)
    with pytest.raises(FormatError, match=r"unequal lengths: {'ts': 2, 'acc': 3}"):
        writer.close()
    assert not (tmp_path / "imu" / META).exists()


def test_a_sensor_whose_writing_failed_never_gets_its_meta_json(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), SensorWriter(tmp_path / "imu", {TS: TS_SPEC, VALID: VALID_SPEC}) as writer:
        writer.append(ts=times(1)[0], valid=1)
        raise ZeroDivisionError
    assert not (tmp_path / "imu" / META).exists()


def test_scalars_are_appended_one_at_a_time(tmp_path: Path) -> None:
    with SensorWriter(tmp_path / "gps", {TS: TS_SPEC, VALID: VALID_SPEC}) as writer:
        for ts in times(3):
            writer.append(ts=ts, valid=1)
    assert np.array_equal(Sensor(tmp_path / "gps").times(3), times(3))
