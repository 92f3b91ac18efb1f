"""A drive in KITTI's layout, made of real sweeps and a real record of the INS."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml

from rover_pipeline.camera.intrinsics import read_intrinsics
from rover_pipeline.errors import ConfigError, FormatError
from rover_pipeline.export import ExportOptions
from rover_pipeline.export.trajectory import write_tum
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.kitti import import_kitti
from rover_pipeline.importers.pictures import import_pictures
from rover_pipeline.kinematics.mount import find_mount
from rover_pipeline.kinematics.options import RigOptions
from rover_pipeline.validation.check import problems
from rover_pipeline.validation.rig import OPTICAL_FROM_FLU
from tests.kit import pictures

#: Calibration of 2011-09-26, as KITTI publishes it.
IMU = (
    "R: 9.999976e-01 7.553071e-04 -2.035826e-03 -7.854027e-04 9.998898e-01 -1.482298e-02 2.024406e-03 1.482454e-02 "
    "9.998881e-01\nT: -8.086759e-01 3.195559e-01 -7.997231e-01\n"
)
VELO = (
    "calib_time: 15-Mar-2012 11:37:16\nR: 7.533745e-03 -9.999714e-01 -6.166020e-04 1.480249e-02 7.280733e-04 "
    "-9.998902e-01 9.998621e-01 7.523790e-03 1.480755e-02\nT: -4.069766e-03 -7.631618e-02 -2.717806e-01\n"
)
CAM = (
    "S_rect_02: 1.242000e+03 3.750000e+02\nR_rect_00: 9.999239e-01 9.837760e-03 -7.445048e-03 -9.869795e-03 "
    "9.999421e-01 -4.278459e-03 7.402527e-03 4.351614e-03 9.999631e-01\nP_rect_02: 7.215377e+02 0.000000e+00 "
    "6.095593e+02 4.485728e+01 0.000000e+00 7.215377e+02 1.728540e+02 2.163791e-01 0.000000e+00 0.000000e+00 "
    "1.000000e+00 2.745884e-03\nP_rect_03: 7.215377e+02 0.000000e+00 6.095593e+02 -3.395242e+02 0.000000e+00 "
    "7.215377e+02 1.728540e+02 2.199936e+00 0.000000e+00 0.000000e+00 1.000000e+00 2.729905e-03\n"
)
COUNT = 4
#: First and last instant of a sweep that looks ahead at 0.02 s.
BEGIN, END = -0.03, 0.068


@pytest.fixture(scope="module")
def drive(captures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four sweeps, of which the third is missing, five records of the INS, and pictures."""
    source = captures / "lidar_hdl64_straight"
    day = tmp_path_factory.mktemp("kitti") / "2011_09_26"
    drive = day / "2011_09_26_drive_0048_sync"
    for name in ("velodyne_points", "image_02", "image_03", "oxts"):
        (drive / name / "data").mkdir(parents=True)
    for name, text in (("imu_to_velo", IMU), ("velo_to_cam", VELO), ("cam_to_cam", CAM)):
        (day / f"calib_{name}.txt").write_text(text)
    records = np.loadtxt(source / "truth_oxts_25col.txt")
    images = pictures(COUNT, 375, 1242)
    for number in range(COUNT):
        with np.load(source / f"{number:010d}.npz") as stored:
            points = np.column_stack([stored["xyz_mm"] / 1000, stored["intensity_pct"] / 100]).astype("<f4")
        if number != 2:
            points.tofile(drive / "velodyne_points" / "data" / f"{number:010d}.bin")
        cv2.imwrite(str(drive / "image_02" / "data" / f"{number:010d}.png"), images[number][..., ::-1])
        cv2.imwrite(str(drive / "image_03" / "data" / f"{number:010d}.png"), images[number][..., 0])
    for number, record in enumerate(records[: COUNT + 1]):
        (drive / "oxts" / "data" / f"{number:010d}.txt").write_text(" ".join(f"{each:.14g}" for each in record))
    lists = {"velodyne_points/timestamps": 0.02, "image_02/timestamps": 0.01, "image_03/timestamps": 0.01}
    lists |= {"oxts/timestamps": 0.0, "velodyne_points/timestamps_start": BEGIN, "velodyne_points/timestamps_end": END}
    for name, shift in lists.items():
        lines = (f"2011-09-26 14:14:{10 + shift + number / 10:012.9f}\n" for number in range(COUNT + 1))
        (drive / f"{name}.txt").write_text("".join(lines))
    return drive


@pytest.fixture(scope="module")
def trace(drive: Path) -> Path:
    out = drive.parent.parent / "trace"
    assert import_kitti(drive, out) == {"lidar": 3, "camera": 4, "camera_03": 4, "_reference": 5, "imu": 5}
    return out


def test_check_accepts_a_drive(trace: Path) -> None:
    assert list(problems(trace)) == []


def test_the_beams_point_a_fifth_of_a_degree_higher_than_published_and_the_trace_says_so(
    drive: Path, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published = np.fromfile(drive / "velodyne_points" / "data" / "0000000000.bin", "<f4").reshape(-1, 4)[:, :3]
    published = published[published.any(1)]

    def directions(lidar: Sensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x, y, z = lidar.channel("xyz").read(0, 1)[0][: len(published)].astype("f8").T
        level = np.hypot(x, y)
        return np.degrees(np.arctan2(z, level)), np.degrees(np.arctan2(y, x)), np.hypot(z, level)

    import_kitti(drive, tmp_path / "as_published", elevation=0)
    assert "raised" not in capsys.readouterr().err
    as_published = Sensor(tmp_path / "as_published" / "lidar")
    np.testing.assert_array_equal(as_published.channel("xyz").read(0, 1)[0][: len(published)], published)
    (elevation, azimuth, distance), before = directions(Sensor(trace / "lidar")), directions(as_published)
    np.testing.assert_allclose(elevation - before[0], 0.205, atol=1e-4)
    np.testing.assert_allclose(azimuth, before[1], atol=1e-4)
    np.testing.assert_allclose(distance, before[2], rtol=1e-6)

    imported = yaml.safe_load((trace / "config.yaml").read_text())["imported"]
    assert imported["options"]["elevation"] == 0.205
    assert any("raised by 0.205 degrees" in note and "--elevation 0" in note for note in imported["notes"])
    assert "0.205 degrees" in json.loads((trace / "lidar" / "lidar.json").read_text())["points"]["source"]


def test_a_missing_sweep_leaves_a_gap_and_moves_no_other_time(trace: Path) -> None:
    begin = 1317046450.0
    np.testing.assert_allclose(
        Sensor(trace / "lidar").times(3), begin + END + np.array([0.0, 0.1, 0.3]), rtol=0, atol=2e-4
    )
    np.testing.assert_allclose(Sensor(trace / "camera").times(4), begin + 0.01 + np.arange(4) / 10, rtol=0, atol=1e-6)


def test_beams_turn_clockwise_from_the_beginning_of_a_sweep_over_ahead_to_its_end(trace: Path) -> None:
    lidar = Sensor(trace / "lidar")
    xyz, count, since = (lidar.channel(name).read(0, 1)[0] for name in ("xyz", "count", "time"))
    xyz, since = xyz[:count], since[:count] + END - 0.02
    angle = np.degrees(np.arctan2(xyz[:, 1], xyz[:, 0]))
    for degrees, wanted in ((0, 0.0), (90, (BEGIN - 0.02) / 2), (-90, (END - 0.02) / 2), (179, BEGIN - 0.02)):
        np.testing.assert_allclose(np.median(since[np.abs(angle - degrees) < 1]), wanted, atol=5e-4)


def test_the_reference_is_the_lidar_by_the_ins(captures: Path, trace: Path, tmp_path: Path) -> None:
    wanted = np.loadtxt(captures / "lidar_hdl64_straight" / "truth_poses_ins.txt").reshape(-1, 3, 4)[:5]
    reference = Sensor(trace / "_reference")
    assert reference.valid(5).all()
    np.testing.assert_allclose(reference.channel("pos").read(), wanted[:, :, 3], atol=1e-5)
    np.testing.assert_allclose(reference.channel("rot").read(), wanted[:, :, :3], atol=1e-6)
    steps = np.diff(reference.channel("pos").read(), axis=0) / 0.1
    # The INS was read at whole hundredths of a second, between which the car moves by 8 cm.
    np.testing.assert_allclose(reference.channel("vel").read()[:-1], steps, atol=0.9)
    write_tum(trace, tmp_path / "reference.txt", ExportOptions(sensor="_reference"))
    np.testing.assert_allclose(np.loadtxt(tmp_path / "reference.txt")[:, 1:4], wanted[:, :, 3], atol=1e-5)


def test_points_are_in_the_pixels_that_kittis_own_formula_gives(trace: Path) -> None:
    cloud = Sensor(trace / "lidar").channel("xyz").read(0, 1)[0][:2000].astype("f8")
    cloud = cloud[cloud[:, 0] > 5]
    lines = [line for line in (VELO + CAM).splitlines() if not line.startswith("calib_time")]
    entries = dict(line.split(": ") for line in lines)
    numbers = {name: np.array(text.split(), "f8") for name, text in entries.items()}
    camera = cloud @ numbers["R"].reshape(3, 3).T + numbers["T"]
    rectified = np.column_stack([camera @ numbers["R_rect_00"].reshape(3, 3).T, np.ones(len(camera))])
    pixels = rectified @ numbers["P_rect_02"].reshape(3, 4).T
    wanted = pixels[:, :2] / pixels[:, 2:]

    mount = find_mount("camera", RigOptions(), (trace / "config.yaml").read_text())
    ours = (cloud - mount.translation) @ mount.rotation @ OPTICAL_FROM_FLU.T
    lens = read_intrinsics((trace / "camera" / "camera.json").read_text(), 1242, 375).lens
    found = np.stack(lens.pixels(ours[:, 0] / ours[:, 2], ours[:, 1] / ours[:, 2]), -1)
    np.testing.assert_allclose(found, wanted, atol=0.05)


def test_the_imu_is_where_the_calibration_says_and_measures_gravity(trace: Path) -> None:
    config = yaml.safe_load((trace / "config.yaml").read_text())
    np.testing.assert_allclose(config["rig"]["imu"]["translation"], [-0.8086759, 0.3195559, -0.7997231])
    acc = Sensor(trace / "imu").channel("acc").read()
    assert np.linalg.norm(acc, axis=1).mean() == pytest.approx(9.81, rel=0.1)


def test_every_camera_of_a_drive_is_a_sensor_with_its_lens_and_its_place(trace: Path) -> None:
    grey = pictures(COUNT, 375, 1242)[..., 0]
    for number in range(COUNT):
        picture = Sensor(trace / "camera_03").channel("video.avi").read(number, number + 1)[0]
        np.testing.assert_allclose(picture[..., 1], grey[number], atol=4)
    config = yaml.safe_load((trace / "config.yaml").read_text())
    assert [config[name]["args"]["folder"] for name in ("camera", "camera_03")] == ["image_02", "image_03"]
    places = [np.array(config["rig"][name]["translation"]) for name in ("camera", "camera_03")]
    # The stereo pair of KITTI: 0.53 m apart, the third camera to the right of the second one.
    assert places[0][1] - places[1][1] == pytest.approx(0.533, abs=2e-3)
    assert json.loads((trace / "camera_03" / "camera.json").read_text())["fx"] == 721.5377


def test_the_camera_asked_for_is_taken(drive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "camera_02" not in import_kitti(drive, tmp_path / "trace", camera="image_03")
    assert "image_02 is left out" in capsys.readouterr().err
    picture = Sensor(tmp_path / "trace" / "camera").channel("video.avi").read(0, 1)[0]
    np.testing.assert_allclose(picture[..., 1], pictures(1, 375, 1242)[0][..., 0], atol=4)
    with pytest.raises(ConfigError, match="--camera image_00"):
        import_kitti(drive, tmp_path / "other", camera="image_00")


def test_sweeps_of_an_extracted_drive_are_text(drive: Path, tmp_path: Path) -> None:
    extracted = tmp_path / "2011_09_26_drive_0048_extract"
    (extracted / "velodyne_points" / "data").mkdir(parents=True)
    shutil.copy(drive / "velodyne_points" / "timestamps.txt", extracted / "velodyne_points")
    points = np.fromfile(drive / "velodyne_points" / "data" / "0000000000.bin", "<f4").reshape(-1, 4)[:500]
    path = extracted / "velodyne_points" / "data" / "0000000000.txt"
    np.savetxt(path, points, fmt="%.3f")
    import_kitti(extracted, tmp_path / "trace", elevation=0)
    lidar = Sensor(tmp_path / "trace" / "lidar")
    np.testing.assert_allclose(lidar.channel("xyz").read()[0], points[:, :3], atol=6e-4)
    assert json.loads((tmp_path / "trace" / "lidar" / "lidar.json").read_text())["points"]["motion"] == "times"
    path.write_text("1 2 3 4 5\n")
    with pytest.raises(FormatError, match=r"0000000000.txt: holds no four numbers"):
        import_kitti(extracted, tmp_path / "other")


def test_a_record_that_is_damaged_is_named_and_nothing_is_left(drive: Path, tmp_path: Path) -> None:
    path = drive / "oxts" / "data" / "0000000001.txt"
    text = path.read_text()
    try:
        path.write_text(text[: len(text) // 2])
        with pytest.raises(FormatError, match=r"0000000001.txt: must hold at least"):
            import_kitti(drive, tmp_path / "trace")
    finally:
        path.write_text(text)
    assert list(tmp_path.iterdir()) == []


def test_jpegs_are_stored_as_they_are_and_others_are_encoded(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    images = pictures(3, 48, 64)
    for number, image in enumerate(images):
        cv2.imwrite(str(folder / f"{number}.jpg"), image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 71])
    cv2.imwrite(str(folder / "3.png"), images[0][..., ::-1])
    lens = {"model": "brown", "fx": 50.0, "fy": 50.0, "cx": 31.5, "cy": 23.5, "k": [-0.1, 0.01], "p": [0, 0]}
    (folder / "camera.json").write_text(json.dumps(lens))
    assert import_pictures(folder, tmp_path / "trace", rate=20, start=1.7e9) == 4
    video = Sensor(tmp_path / "trace" / "camera").channel("video.avi")
    for number in range(3):
        assert video.jpeg(number) == (folder / f"{number}.jpg").read_bytes()  # type: ignore[attr-defined]
    np.testing.assert_allclose(video.read(3, 4)[0], images[0], atol=8)
    assert read_intrinsics((tmp_path / "trace" / "camera" / "camera.json").read_text(), 64, 48).lens.k[0] == -0.1
    assert list(problems(tmp_path / "trace")) == []
    cv2.imwrite(str(folder / "4.png"), images[0][:20])
    with pytest.raises(FormatError, match=r"4.png: has 64x20 pixels, the pictures before it 64x48"):
        import_pictures(folder, tmp_path / "other", rate=20)
    (folder / "4.png").unlink()
    (folder / "1.jpg").write_bytes((folder / "1.jpg").read_bytes()[:300])
    with pytest.raises(FormatError, match=r"1.jpg: is no whole picture"):
        import_pictures(folder, tmp_path / "other", rate=20)
