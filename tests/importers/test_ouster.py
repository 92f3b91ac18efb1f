"""Real Ouster captures: the results of the pipeline are those of ouster-sdk for the same sweeps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from ouster.sdk import core, open_source, osf

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import ConfigError, FormatError, InTheWayError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.ouster import import_ouster
from rover_pipeline.table import find_step
from rover_pipeline.validation.check import problems

LIDAR_IMAGE = find_step("_lidar_image")
CAPTURES = [
    ("OS-1-128_v2.3.0_1024x10_lb_n3.pcap", 3),
    ("OS-1-128_v2.3.0_1024x10_lb_n3.osf", 3),
    ("OS-0-32-U1_v2.2.0_1024x10.pcap", 1),
]


@pytest.mark.parametrize(("name", "sweeps"), CAPTURES)
def test_the_lidar_image_of_a_capture_equals_the_destaggered_image_of_ouster_sdk(
    captures: Path, tmp_path: Path, name: str, sweeps: int
) -> None:
    trace = tmp_path / "trace"
    assert import_ouster(captures / "ouster" / name, trace) == sweeps
    assert run_step(LIDAR_IMAGE, trace, "_lidar_image", Request()).samples == sweeps

    sensor = Sensor(trace / "_lidar_image")
    source = open_source(str(captures / "ouster" / name))
    info = source.sensor_info[0]
    for i, (scan, *_) in enumerate(source):
        assert scan is not None
        for channel, field in {"rng": "RANGE", "rfl": "REFLECTIVITY", "nir": "NEAR_IR"}.items():
            expected = core.destagger(info, scan.field(field))
            values = sensor.channel(channel).read(i, i + 1)[0]
            # Ranges of the capture have 32 bits, those of the format 16 bits, up to 65.535 m.
            np.testing.assert_array_equal(values, np.minimum(expected, np.iinfo(values.dtype).max))


def test_times_are_host_times_at_the_end_of_each_sweep(captures: Path, tmp_path: Path) -> None:
    import_ouster(captures / "ouster" / CAPTURES[0][0], tmp_path / "trace")
    ts = Sensor(tmp_path / "trace" / "lidar").times(3)
    # The capture's own host times of the last packet of each sweep, 2022-04-19.
    np.testing.assert_allclose(ts, [1650410295.448622, 1650410295.548622, 1650410295.648707], rtol=0, atol=1e-6)


def test_the_imu_of_a_street_capture_measures_gravity_at_a_constant_rate(captures: Path, tmp_path: Path) -> None:
    import_ouster(captures / "ouster" / CAPTURES[0][0], tmp_path / "trace")
    imu = Sensor(tmp_path / "trace" / "imu")
    assert imu.length() == 30
    assert np.diff(imu.times(30)).mean() == pytest.approx(0.01, rel=0.01)
    assert np.linalg.norm(imu.channel("acc").read().mean(axis=0)) == pytest.approx(9.81, rel=0.15)


def test_a_capture_without_host_times_starts_at_the_given_time(captures: Path, tmp_path: Path) -> None:
    import_ouster(captures / "ouster" / CAPTURES[1][0], tmp_path / "trace", start=1.7e9)
    ts = Sensor(tmp_path / "trace" / "lidar").times(3)
    assert ts[0] == 1.7e9
    np.testing.assert_allclose(np.diff(ts), 0.1, atol=1e-3)


def test_a_capture_whose_clock_was_never_set_counts_from_when_the_file_was_changed(
    captures: Path, tmp_path: Path
) -> None:
    import_ouster(captures / "ouster" / CAPTURES[1][0], tmp_path / "trace")
    ts = Sensor(tmp_path / "trace" / "lidar").times(3)
    assert ts[0] == pytest.approx((captures / "ouster" / CAPTURES[1][0]).stat().st_mtime, abs=1)
    assert list(problems(tmp_path / "trace")) == []


def test_second_returns_are_kept_beside_the_first(captures: Path, tmp_path: Path) -> None:
    import_ouster(captures / "ouster" / CAPTURES[2][0], tmp_path / "trace")
    lidar = Sensor(tmp_path / "trace" / "lidar")
    (scan,) = (scan for scan, *_ in open_source(str(captures / "ouster" / CAPTURES[2][0])))
    assert scan is not None
    for channel, field in {"rng2": "RANGE2", "rfl2": "REFLECTIVITY2"}.items():
        values = lidar.channel(channel).read(0, 1)[0]
        np.testing.assert_array_equal(values, np.minimum(scan.field(field), np.iinfo(values.dtype).max))
    first, second = (lidar.channel(name).read(0, 1)[0] for name in ("rng", "rng2"))
    assert (second > 0).sum() > 100 and (first != second)[second > 0].all()
    assert list(problems(tmp_path / "trace")) == []


def test_of_several_sensors_in_a_capture_one_is_chosen(captures: Path, tmp_path: Path) -> None:
    sources = [open_source(str(captures / "ouster" / CAPTURES[number][0])) for number in (0, 2)]
    several = str(tmp_path / "several.osf")
    with osf.Writer(several, [source.sensor_info[0] for source in sources]) as writer:
        for number, source in enumerate(sources):
            for scan, *_ in source:
                assert scan is not None
                writer.save(number, scan)
    with pytest.raises(ConfigError, match=r"several.osf: has no sensor 7; it holds 0 = OS-1-128 122201000998, 1 = "):
        import_ouster(Path(several), tmp_path / "none", sensor="7")
    for sensor, sweeps, beams in (("0", 3, 128), ("992137000142", 1, 32)):
        assert import_ouster(Path(several), tmp_path / sensor, sensor=sensor) == sweeps
        assert Sensor(tmp_path / sensor / "lidar").specs["rng"].shape[0] == beams
        assert list(problems(tmp_path / sensor)) == []


def test_what_the_imu_measured_during_sweeps_of_an_osf_is_kept_and_near_infrared_is_not_needed(
    captures: Path, tmp_path: Path
) -> None:
    source = open_source(str(captures / "ouster" / CAPTURES[0][0]))
    fields = {"IMU_ACC": (8, 3), "IMU_GYRO": (8, 3), "IMU_TIMESTAMP": (8,), "IMU_STATUS": (8,)}
    kinds = dict(zip(fields, ("f4", "f4", "u8", "u2"), strict=True))
    path, ends = str(tmp_path / "imu.osf"), []
    with osf.Writer(path, [source.sensor_info[0]], ["RANGE", "REFLECTIVITY", *fields]) as writer:
        for scan, *_ in source:
            assert scan is not None
            for name, shape in fields.items():
                scan.add_field(name, np.zeros(shape, kinds[name]), core.FieldClass.FRAME_FIELD)
            scan.field("IMU_ACC")[:] = [0.1, 0.2, 9.8]
            scan.field("IMU_TIMESTAMP")[:] = scan.timestamp.max() - np.arange(80, 0, -10) * 1_000_000
            scan.field("IMU_STATUS")[:] = [1, 1, 1, 0, 1, 1, 1, 1]
            ends.append(scan.packet_timestamp.max() / 1e9)
            writer.save(0, scan)
    import_ouster(Path(path), tmp_path / "trace")
    imu = Sensor(tmp_path / "trace" / "imu")
    wanted = np.concatenate([end - np.array([0.08, 0.07, 0.06, 0.04, 0.03, 0.02, 0.01]) for end in ends])
    np.testing.assert_allclose(imu.times(21), wanted, rtol=0, atol=2e-6)
    np.testing.assert_allclose(imu.channel("acc").read(), np.tile(np.array([0.1, 0.2, 9.8], "f4"), (21, 1)))
    assert "nir" not in Sensor(tmp_path / "trace" / "lidar").specs
    for sensor in ("_lidar_image", "_lidar_points"):
        run_step(find_step(sensor), tmp_path / "trace", sensor, Request())
        assert {"rfl"} == {"rfl", "nir"} & set(Sensor(tmp_path / "trace" / sensor).specs)
    assert list(problems(tmp_path / "trace")) == []


def test_metadata_of_old_firmware_gets_the_keys_that_readers_need(captures: Path, tmp_path: Path) -> None:
    original = json.loads((captures / "ouster" / "OS-0-32-U1_v2.2.0_1024x10.json").read_text())
    assert "beam_intrinsics" not in original
    import_ouster(captures / "ouster" / CAPTURES[2][0], tmp_path / "trace")
    written = json.loads((tmp_path / "trace" / "lidar" / "lidar.json").read_text())
    assert len(written["beam_intrinsics"]["beam_to_lidar_transform"]) == 16
    assert len(written["lidar_intrinsics"]["lidar_to_sensor_transform"]) == 16
    assert len(written["lidar_data_format"]["pixel_shift_by_row"]) == 32


def test_a_damaged_capture_is_an_error_and_leaves_no_files(captures: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pcap"
    damaged.write_bytes(b"not a capture")
    metadata = captures / "ouster" / "OS-1-128_v2.3.0_1024x10.json"
    with pytest.raises(FormatError, match=r"damaged\.pcap"):
        import_ouster(damaged, tmp_path / "trace", metadata)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged.pcap"]


def test_an_existing_trace_is_not_overwritten(captures: Path, tmp_path: Path) -> None:
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "notes.txt").write_text("mine")
    with pytest.raises(InTheWayError, match="already exists"):
        import_ouster(captures / "ouster" / CAPTURES[0][0], tmp_path / "trace")
    assert (tmp_path / "trace" / "notes.txt").read_text() == "mine"


def test_metadata_that_the_sdk_finds_by_itself_is_recorded_as_a_source(captures: Path, tmp_path: Path) -> None:
    name = "OS-1-128_v2.3.0_1024x10"
    for file in (f"{name}_lb_n3.pcap", f"{name}.json"):  # only the beginning of the names is the same
        (tmp_path / file).symlink_to(captures / "ouster" / file)
    import_ouster(tmp_path / f"{name}_lb_n3.pcap", tmp_path / "trace")
    origin = yaml.safe_load((tmp_path / "trace" / "config.yaml").read_text())["imported"]["from"]
    assert sorted(origin) == [f"{name}.json", f"{name}_lb_n3.pcap"]


def test_a_capture_without_metadata_says_where_to_put_it(captures: Path, tmp_path: Path) -> None:
    (tmp_path / "lonely.pcap").symlink_to(captures / "ouster" / "OS-0-32-U1_v2.2.0_1024x10.pcap")
    with pytest.raises(FormatError, match=r"is missing: put it beside the capture as lonely\.json"):
        import_ouster(tmp_path / "lonely.pcap", tmp_path / "trace")
