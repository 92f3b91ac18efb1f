"""Folders of point clouds: every format gives the points that its own program wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.spatial.transform import Rotation

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import ConfigError, FormatError, InTheWayError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.clouds import import_clouds
from rover_pipeline.importers.dca1000 import import_dca1000
from rover_pipeline.table import find_step
from rover_pipeline.validation.check import problems
from tests.importers.clouds_kit import FIELDS, FORMATS, table

START = 1_700_000_000.0


def folder_of(path: Path, name: str, count: int = 3) -> Path:
    suffix, write = FORMATS[name]
    path.mkdir()
    for number in range(count):
        write(path / f"scan{8 + number}{suffix}", table(300 + 5 * number, number))
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_all_that_was_written(tmp_path: Path, name: str) -> None:
    fields = FIELDS if name == "bin" else ()
    folder = folder_of(tmp_path / "clouds", name)
    assert import_clouds(folder, tmp_path / "trace", rate=10, start=START, fields=fields) == 3
    lidar = Sensor(tmp_path / "trace" / "lidar")
    # Times of points count from that of the file, which is 0.1 s before the last one: the end of the sweep.
    np.testing.assert_allclose(lidar.times(3), START + 0.1 * np.arange(1, 4), rtol=0, atol=1e-6)
    exact = "ascii" not in name
    for number in range(3):
        given = table(300 + 5 * number, number)
        count = int(lidar.channel("count").read()[number])
        assert count == len(given["x"])
        read = {key: lidar.channel(key).read(number, number + 1)[0][:count] for key in ("xyz", *FIELDS[3:])}
        xyz = np.stack([given[axis] for axis in "xyz"], -1)
        np.testing.assert_allclose(read["xyz"], xyz, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-4)
        np.testing.assert_allclose(read["intensity"], given["intensity"], rtol=0 if exact else 1e-5)
        np.testing.assert_array_equal(read["ring"], given["ring"])
        np.testing.assert_allclose(read["time"], given["time"] - 0.1, atol=1e-6)
    assert list(problems(tmp_path / "trace")) == []


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_an_error_that_names_it_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    folder = folder_of(tmp_path / "clouds", name)
    damaged = sorted(folder.iterdir())[-1]
    data = damaged.read_bytes()
    fields = FIELDS if name == "bin" else ()
    for content in (data[: len(data) // 2 - 1], b"", bytes(range(256))):
        damaged.write_bytes(content)
        with pytest.raises(FormatError, match=damaged.name):
            import_clouds(folder, tmp_path / "trace", rate=10, fields=fields)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["clouds"]


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (b"POINTS 99999999999\nDATA binary\n", "99,999,999,999 points"),
        (b"POINTS 5\nDATA binary\n", "no whole pcd"),
        (b"POINTS 5\nDATA ascii\n1 2 3", "ends before"),
        (b"POINTS 5\nDATA other\n", "is none of"),
        (b"POINTS 5\nDATA binary_compressed\n\xff\xff\xff\xff\xff\xff\xff\xff", "compressed part"),
    ],
)
def test_what_a_header_claims_is_never_allocated(tmp_path: Path, header: bytes, problem: str) -> None:
    (tmp_path / "clouds").mkdir()
    start = b"VERSION .7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH 5\nHEIGHT 1\n"
    (tmp_path / "clouds" / "1.pcd").write_bytes(start + header)
    with pytest.raises(FormatError, match=problem):
        import_clouds(tmp_path / "clouds", tmp_path / "trace", rate=10)


def test_times_come_from_a_list_the_names_or_a_rate_and_from_nothing_else(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "clouds", "npz")
    for path in sorted(folder.iterdir()):  # points without times of their own
        with np.load(path) as stored:
            np.savez(path, xyz=stored["xyz"])
    with pytest.raises(ConfigError, match=r"clouds: nothing gives the times .* --times FILE or --rate"):
        import_clouds(folder, tmp_path / "none")
    wanted = START + np.array([0.0, 0.25, 1.0])
    lists = {
        "seconds": "# a list\n" + "".join(f"{each:.3f}\n" for each in wanted),
        "nanoseconds": "".join(f"{round(each * 1000)}000000\n" for each in wanted),
        "kitti": "2023-11-14 22:13:20.000000000\n2023-11-14 22:13:20.250000000\n2023-11-14 22:13:21.000000000\n",
    }
    for name, text in lists.items():
        (tmp_path / f"{name}.txt").write_text(text)
        import_clouds(folder, tmp_path / name, times=tmp_path / f"{name}.txt")
        np.testing.assert_allclose(Sensor(tmp_path / name / "lidar").times(3), wanted, rtol=0, atol=1e-6)
    import_clouds(folder, tmp_path / "relative", rate=10)
    ts = Sensor(tmp_path / "relative" / "lidar").times(3)
    np.testing.assert_allclose(ts - ts[0], [0, 0.1, 0.2], atol=1e-6)
    assert list(problems(tmp_path / "relative")) == []  # which refuses times before 1990
    (tmp_path / "jumping.txt").write_text("1700000000\n1700000001\n1700009000\n")
    with pytest.raises(FormatError, match="file 2 comes 8999 s after the one before: these are two recordings"):
        import_clouds(folder, tmp_path / "short", times=tmp_path / "jumping.txt")
    (tmp_path / "short.txt").write_text("1\n2\n")
    with pytest.raises(FormatError, match=r"has 2 times, .*clouds 3 files"):
        import_clouds(folder, tmp_path / "short", times=tmp_path / "short.txt")
    for path, ts in zip(sorted(folder.iterdir(), key=lambda path: int(path.stem[4:])), wanted, strict=True):
        path.rename(folder / f"{round(ts * 1000)}000000.npz")
    import_clouds(folder, tmp_path / "named")
    np.testing.assert_allclose(Sensor(tmp_path / "named" / "lidar").times(3), wanted, rtol=0, atol=1e-6)


def test_poses_become_the_reference(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "clouds", "npz")
    rot = Rotation.from_rotvec([[0, 0, 0], [0.1, 0, 0.3], [0, 0.2, 0]])
    pos = np.arange(9.0).reshape(3, 3)
    ts = START + 0.1 * np.arange(3)
    np.savetxt(tmp_path / "tum.txt", np.column_stack([ts, pos, rot.as_quat()]), fmt="%.9f")
    np.savetxt(tmp_path / "kitti.txt", np.concatenate([rot.as_matrix(), pos[:, :, None]], 2).reshape(3, 12))
    for name in ("tum", "kitti"):
        import_clouds(folder, tmp_path / name, rate=10, start=START, poses=tmp_path / f"{name}.txt")
        reference = Sensor(tmp_path / name / "_reference")
        assert reference.valid(3).all()
        np.testing.assert_allclose(reference.times(3), ts, rtol=0, atol=1e-6)
        np.testing.assert_allclose(reference.channel("pos").read(), pos, atol=1e-6)
        np.testing.assert_allclose(reference.channel("rot").read(), rot.as_matrix(), atol=1e-6)
        assert list(problems(tmp_path / name)) == []


def test_points_without_times_are_dated_by_their_azimuth_where_somebody_says_how_the_beams_turn(tmp_path: Path) -> None:
    turn = np.radians([175.0, 90.0, 0.0, -90.0, -175.0])
    points = np.stack([5 * np.cos(turn), 5 * np.sin(turn), np.ones(5)], -1).astype("f4")
    (tmp_path / "clouds").mkdir()
    for number in range(3):
        np.savez(tmp_path / "clouds" / f"{number}.npz", xyz=points)
    for turning, sign in (("clockwise", 1), ("counterclockwise", -1)):
        import_clouds(tmp_path / "clouds", tmp_path / turning, rate=10, start=START, turning=turning)  # type: ignore[arg-type]
        lidar = Sensor(tmp_path / turning / "lidar")
        instants = lidar.times(3)[:, None] + lidar.channel("time").read() - START
        share = -np.degrees(turn) / 360 * sign
        np.testing.assert_allclose(instants, 0.1 * np.arange(3)[:, None] + 0.1 * share, atol=1e-6)
    with pytest.raises(ConfigError, match="--turning dates points"):
        import_clouds(tmp_path / "clouds", tmp_path / "x", rate=10, start=START, turning="clockwise", compensated=True)
    np.savez(tmp_path / "clouds" / "0.npz", xyz=points, time=np.arange(5.0))
    with pytest.raises(ConfigError, match="--turning: the points have times"):
        import_clouds(tmp_path / "clouds", tmp_path / "x", rate=10, start=START, turning="clockwise")


def test_real_sweeps_of_a_straight_drive_are_all_placed_as_the_ins_does(captures: Path, tmp_path: Path) -> None:
    source = captures / "lidar_hdl64_straight"
    count = 8
    (tmp_path / "clouds").mkdir()
    for number in range(count):
        (tmp_path / "clouds" / f"{number}.npz").symlink_to(source / f"{number:010d}.npz")
    import_clouds(tmp_path / "clouds", tmp_path / "trace", rate=10, start=START, turning="clockwise")
    run_step(find_step("_odom"), tmp_path / "trace", "_odom", Request())
    odometry = Sensor(tmp_path / "trace" / "_odom")
    assert odometry.valid(count).all()
    pos = odometry.channel("pos").read()
    wanted = np.loadtxt(source / "truth_poses_ins.txt").reshape(-1, 3, 4)[:count, :, 3]
    # The INS was read up to 10 ms from the sweep, in which the car moves by 8 cm, and says of itself that it is 0.1 m.
    assert np.linalg.norm(pos[-1]) == pytest.approx(np.linalg.norm(wanted[-1]), abs=0.15)
    assert np.abs(pos[:, 1:]).max() < 0.1


def test_a_radar_is_added_to_the_trace_of_a_lidar_and_nothing_twice(captures: Path, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "clouds", "npz")
    import_clouds(folder, tmp_path / "trace", rate=10, start=START)
    before = {path: path.read_bytes() for path in (tmp_path / "trace" / "lidar").iterdir()}
    radar = captures / "radar_iwr6843_3tx4rx"
    import_dca1000(radar / "adc_data.bin", radar / "mmwaveDevice.mmwave.json", tmp_path / "trace")
    assert {path: path.read_bytes() for path in (tmp_path / "trace" / "lidar").iterdir()} == before
    config = yaml.safe_load((tmp_path / "trace" / "config.yaml").read_text())
    assert config["radar"]["type"] == "radar" and config["lidar"] == {"type": "lidar"}
    assert list(problems(tmp_path / "trace")) == []
    import_clouds(folder, tmp_path / "trace", rate=10, start=START)  # the same bytes: as after a kill
    with pytest.raises(InTheWayError, match=r"trace/lidar: is there already; .* Nothing was changed"):
        import_clouds(folder, tmp_path / "trace", rate=5, start=START)
    assert {path: path.read_bytes() for path in (tmp_path / "trace" / "lidar").iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clouds", "trace"]
