"""The writer of a lidar that is points: what was given is what is read, whatever the sizes and the order of sweeps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.errors import FormatError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.trace import CONFIG
from rover_pipeline.importers.points import Cloud, PointsWriter
from rover_pipeline.validation.check import problems
from tests.kit import times


def clouds(sizes: Sequence[int], seed: int = 0) -> list[Cloud]:
    random = np.random.default_rng(seed)
    return [
        Cloud(
            xyz=random.normal(0, 20, (size, 3)).astype("f4"),
            intensity=random.uniform(0, 255, size).astype("f4"),
            ring=random.integers(0, 64, size).astype("u2"),
            time=np.sort(random.uniform(-0.1, 0, size)).astype("f4"),
        )
        for size in sizes
    ]


def write(trace: Path, sweeps: Sequence[Cloud], *, compress: bool = False) -> Sensor:
    trace.mkdir()
    (trace / CONFIG).write_text("lidar: {type: lidar}\n")
    folder = trace / "lidar"
    with PointsWriter(folder, unit="counts", compress=compress) as writer:
        for ts, cloud in zip(times(len(sweeps)), sweeps, strict=True):
            writer.append(ts, cloud)
    return Sensor(folder)


@pytest.mark.parametrize("sizes", [(5, 5, 5), (3, 9, 4, 30, 31, 7), (30, 4, 0, 9)])
@pytest.mark.parametrize("compress", [False, True])
def test_sweeps_of_any_sizes_are_read_as_they_were_given(
    tmp_path: Path, sizes: tuple[int, ...], compress: bool
) -> None:
    given = clouds(sizes)
    lidar = write(tmp_path / "trace", given, compress=compress)
    assert lidar.length() == len(sizes)
    np.testing.assert_array_equal(lidar.channel("count").read(), sizes)
    np.testing.assert_array_equal(lidar.valid(len(sizes)), np.asarray(sizes) > 0)
    assert lidar.specs["xyz"].shape == (max(sizes), 3)
    for number, cloud in enumerate(given):
        for name, wanted in cloud._asdict().items():
            read = lidar.channel(name).read(number, number + 1)[0]
            np.testing.assert_array_equal(read[: len(wanted)], wanted)
            rest = read[len(wanted) :]
            assert np.isnan(rest).all() if name != "ring" else not rest.any()
    assert list(problems(tmp_path / "trace")) == []


def test_points_that_are_no_returns_are_left_out_with_all_that_is_known_of_them(tmp_path: Path) -> None:
    (cloud,) = clouds((6,))
    cloud.xyz[1], cloud.xyz[3], cloud.xyz[4, 2] = 0, np.nan, np.inf
    lidar = write(tmp_path / "trace", [cloud])
    kept = [0, 2, 5]
    assert lidar.channel("count").read()[0] == 3
    np.testing.assert_array_equal(lidar.channel("xyz").read()[0], cloud.xyz[kept])
    assert cloud.ring is not None
    np.testing.assert_array_equal(lidar.channel("ring").read()[0], cloud.ring[kept])


def test_the_sidecar_tells_the_span_of_times_and_the_scale_of_intensities(tmp_path: Path) -> None:
    given = clouds((50, 60))
    write(tmp_path / "trace", given)
    said = json.loads((tmp_path / "trace" / "lidar" / "lidar.json").read_text())["points"]
    assert said["span_s"] == [float(min(c.time.min() for c in given)), float(max(c.time.max() for c in given))]  # type: ignore[union-attr]
    assert (said["motion"], said["full_intensity"], said["max_points"]) == ("times", 255, 60)
    assert said["period_s"] == pytest.approx(0.1)


def test_times_after_the_last_point_are_never_positive_and_keep_their_differences() -> None:
    (cloud,) = clouds((9,))
    assert cloud.time is not None
    moved, after = cloud._replace(time=cloud.time + 0.25).to_end()
    assert moved.time is not None and moved.time.max() == 0
    np.testing.assert_allclose(moved.time + after, cloud.time + 0.25, atol=1e-9)


def test_a_sweep_that_is_not_later_or_lacks_a_channel_is_refused(tmp_path: Path) -> None:
    one, two = clouds((4, 4))
    with pytest.raises(FormatError, match=r"lidar: sweep 1: .* not after"), PointsWriter(tmp_path / "lidar") as writer:
        writer.append(10.0, one)
        writer.append(10.0, two)
    with (
        pytest.raises(FormatError, match=r"lidar: sweep 1: has no ring"),
        PointsWriter(tmp_path / "more" / "lidar") as writer,
    ):
        writer.append(10.0, one)
        writer.append(10.1, two._replace(ring=None))
    with (
        pytest.raises(FormatError, match=r"times of its points .* no sweep is"),
        PointsWriter(tmp_path / "last" / "lidar") as writer,
    ):
        writer.append(10.0, one._replace(time=np.full(4, 5e4)))


@pytest.mark.parametrize(
    ("name", "at", "value", "problem"),
    [
        ("count", 0, np.uint32(99), "count is more than the 6 points"),
        ("xyz", 4, np.float32(np.nan), "xyz is not finite before count"),
        ("xyz", 6 * 3 + 4 * 3, np.float32(1), "xyz is not NaN past count"),
        ("time", 6 + 5, np.float32(1), "time is not NaN past count"),
    ],
)
def test_check_finds_points_that_count_does_not_agree_with(
    tmp_path: Path, name: str, at: int, value: np.generic, problem: str
) -> None:
    write(tmp_path / "trace", clouds((6, 3)))
    assert list(problems(tmp_path / "trace")) == []
    path = tmp_path / "trace" / "lidar" / name
    data = bytearray(path.read_bytes())
    data[4 * at : 4 * at + 4] = value.tobytes()
    path.write_bytes(bytes(data))
    assert any(problem in line for line in problems(tmp_path / "trace"))


def test_sweeps_years_apart_are_an_error_of_one_line(tmp_path: Path) -> None:
    writer = PointsWriter(tmp_path / "lidar", source="clouds of a test")
    for ts in (0.0, 1e9):
        writer.append(ts, Cloud(np.ones((3, 3))))
    with pytest.raises(FormatError, match="clouds of a test: what its points say is no lidar's: period_s"):
        writer.close()
    writer.release()
