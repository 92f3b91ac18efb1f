"""Packets of Velodyne lidars: equal to the cloud of another decoder, and to what the manuals say of each lidar."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.spatial import cKDTree

from rover_pipeline.errors import FormatError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.ros.bags import Recording
from rover_pipeline.importers.ros.messages import decode as decode_message
from rover_pipeline.importers.ros.messages import known_type
from rover_pipeline.importers.ros.record import import_ros
from rover_pipeline.importers.velodyne import PacketWriter, import_velodyne, model_of
from rover_pipeline.importers.velodyne_packets import MODELS, Returns, decode, find_model
from rover_pipeline.validation.check import problems

#: Fields of the cloud that nebula, TIER IV's driver, made of the packets.
_UPSTREAM = np.dtype(
    [(axis, "<f4") for axis in "xyz"]
    + [("intensity", "u1"), ("kind", "u1"), ("ring", "<u2"), ("azimuth", "<f4"), ("elevation", "<f4")]
    + [("distance", "<f4"), ("time", "<u4")]
)


def test_a_decoded_sweep_equals_the_cloud_of_another_decoder(captures: Path, tmp_path: Path) -> None:
    bags = captures / "bags" / "vlp16"
    import_ros([bags / "1673400471837873222"], tmp_path / "trace", say=lambda text: None)
    lidar = Sensor(tmp_path / "trace" / "lidar")
    count = int(lidar.channel("count").read(3, 4)[0])
    xyz, ring = (lidar.channel(name).read(3, 4)[0][:count] for name in ("xyz", "ring"))
    intensity = lidar.channel("intensity").read(3, 4)[0][:count]

    raw = (bags / "1673400472138016708.pcd").read_bytes()
    cloud = np.frombuffer(raw[raw.index(b"DATA binary\n") + 12 :], _UPSTREAM)
    # Upstream cuts its sweep at packets, from 0.30 to 359.05 degrees; ours begins and ends at zero.
    azimuth = np.degrees(-np.arctan2(xyz[:, 1], xyz[:, 0])) % 360
    inside = (azimuth > 0.305) & (azimuth < 359.045)
    assert inside.sum() == len(cloud)

    # The decoder gives the packet and the time of each return beside the same points, in the same order.
    packets = _packets_of(bags / "1673400471837873222")
    decoded = decode(packets, MODELS[0x22])
    start = int(lidar.channel("count").read(0, 3).sum())
    own = Returns(*(each[start : start + count][inside] for each in decoded))
    np.testing.assert_array_equal(own.xyz, xyz[inside])
    np.testing.assert_array_equal(own.ring, ring[inside])

    # Upstream takes another azimuth than that of the shot in two cases, up to 0.4 degrees beside it: in the last of the
    # six pairs of blocks that of the pair, and for second returns of the other pairs that of the next pair.
    blocks = packets[:, :1200].reshape(-1, 12, 100)
    azimuths = blocks[:, ::2, 2:4].copy().view("<u2")[..., 0].astype("f8")
    distances = blocks[:, :, 4:].reshape(-1, 12, 32, 3)[..., :2].copy().view("<u2")[..., 0]
    pair, within = np.divmod(own.time, 2 * MODELS[0x22].sequence)
    pair = pair.astype("i8")
    lane = np.argsort(MODELS[0x22].rings)[own.ring] + 16 * (within >= MODELS[0x22].sequence)
    units = np.round(np.linalg.norm(own.xyz.astype("f8"), axis=1) / MODELS[0x22].resolution)
    second = distances[own.packet, 2 * pair, lane] != units
    np.testing.assert_array_equal(distances[own.packet, 2 * pair + second, lane], units)
    taken = np.where(second, azimuths[own.packet, np.minimum(pair + 1, 5)], own.azimuth)
    taken = np.radians(np.where(pair == 5, azimuths[own.packet, 5], taken) / 100)
    level = np.linalg.norm(own.xyz[:, :2], axis=1)
    moved = np.stack([level * np.cos(taken), -level * np.sin(taken), own.xyz[:, 2]], axis=1)
    same = (pair < 5) & ~second
    assert same.mean() > 0.8 and (np.linalg.norm(moved - own.xyz, axis=1)[same] < 1e-5).all()
    wanted = np.stack([cloud[axis] for axis in "xyz"], axis=1)
    for beam in range(16):
        mine, other = moved[own.ring == beam], wanted[cloud["ring"] == beam]
        assert len(mine) == len(other)
        if len(other):
            assert cKDTree(mine).query(other)[0].max() < 2e-3
            assert cKDTree(other).query(mine)[0].max() < 2e-3
    assert np.array_equal(np.sort(intensity[inside]), np.sort(cloud["intensity"]))


def _packets_of(folder: Path) -> np.ndarray:
    """The packets of a bag, u1 (packet, 1206)."""
    kind, found = "velodyne_msgs/VelodyneScan", []
    for message in Recording([folder], False).messages():
        if known_type(message.type) == kind:
            found += [each["data"] for each in decode_message(kind, "cdr", message.data)["packets"]]
    return np.stack(found)


def _packet(
    product: int, azimuths: list[int], distance: np.ndarray, *, mode: int = 0x37, lower: bool = False, clock: int = 0
) -> np.ndarray:
    """A data packet with the distances, (12, 32), in units of the lidar."""
    blocks = b""
    for i, azimuth in enumerate(azimuths):
        flag = b"\xff\xdd" if lower and i % 2 else b"\xff\xee"
        returns = b"".join(struct.pack("<HB", int(each), lane) for lane, each in enumerate(distance[i]))
        blocks += flag + struct.pack("<H", azimuth % 36000) + returns
    return np.frombuffer(blocks + struct.pack("<IBB", clock, mode, product), "u1")


@pytest.mark.parametrize(
    ("product", "lane", "elevation", "azimuth", "metres"),
    [
        (0x22, 2, -13.0, 1000 + 40 * 2 * 2.304 / 110.592, 2.0),  # third laser
        (0x22, 17, 1.0, 1000 + 40 * (55.296 + 2.304) / 110.592, 2.0),  # second laser, in the second sequence
        (0x21, 1, -9.33, 1000 + 40 * 1.152 / 46.08, 2.0),
        (0x28, 9, 0.333, 1000 - 420 + 40 * 4 * 2.304 / 55.296, 4.0),  # lasers fire in pairs, and look aside
        (0x28, 3, -15.639, 1000 - 140 + 40 * 2.304 / 55.296, 4.0),
    ],
)
def test_a_return_lies_where_the_manual_says(
    product: int, lane: int, elevation: float, azimuth: float, metres: float
) -> None:
    distance = np.zeros((12, 32))
    distance[0, lane] = 1000
    packet = _packet(product, [1000 + 40 * i for i in range(12)], distance)
    model = MODELS[product]
    assert find_model(packet[None]) == product
    found = decode(packet[None], model)
    angle, up = np.radians(azimuth / 100), np.radians(elevation)
    wanted = metres * np.array([np.cos(up) * np.cos(angle), -np.cos(up) * np.sin(angle), np.sin(up)])
    np.testing.assert_allclose(found.xyz, wanted[None], atol=metres * np.radians(0.0051))
    assert found.intensity.tolist() == [lane]


def test_of_two_returns_of_a_shot_equal_ones_are_one_and_different_ones_are_two() -> None:
    distance = np.zeros((12, 32))
    distance[0, 4] = distance[1, 4] = 1000
    distance[2, 6], distance[3, 6] = 3000, 1500
    azimuths = [1000 + 40 * (i // 2) for i in range(12)]
    found = decode(_packet(0x22, azimuths, distance, mode=0x39)[None], MODELS[0x22])
    np.testing.assert_allclose(np.sort(np.linalg.norm(found.xyz, axis=1)), [2, 3, 6], atol=1e-5)
    assert found.azimuth[1] == found.azimuth[2] == round(1040 + 40 * 6 * 2.304 / 110.592)


def test_beams_of_every_lidar_are_numbered_from_the_lowest_up() -> None:
    for model in MODELS.values():
        np.testing.assert_array_equal(model.elevation[np.argsort(model.rings)], np.sort(model.elevation))


def _calibration(path: Path) -> Path:
    same = {"dist_correction": 1.2, "dist_correction_x": 1.3, "dist_correction_y": 1.1, "vert_offset_correction": 0.2}
    same |= {"horiz_offset_correction": 0.026, "two_pt_correction_available": True}
    lasers = []
    for i in range(64):
        turned, up = float(np.radians(i - 32) / 10), float(np.radians(-20 + i / 4))
        lasers.append({"laser_id": i, "rot_correction": turned, "vert_correction": up, **same})
    path.write_text(yaml.safe_dump({"lasers": lasers}))
    return path


def test_an_hdl_64e_needs_its_calibration_and_its_far_points_have_all_corrections(tmp_path: Path) -> None:
    distance = np.zeros((12, 32))
    distance[1, 5] = 11_920  # of the lower block: laser 37; 23.84 m and 1.2 m of correction are 25.04 m
    azimuths = [9000 + 17 * (i // 2) for i in range(12)]
    packet = _packet(0, azimuths, distance, lower=True)
    with pytest.raises(FormatError, match="HDL-64E, whose lasers differ from device to device: give --calibration"):
        _written(tmp_path / "lidar", [(packet, 0.0)])
    model = model_of(None, _calibration(tmp_path / "64.yaml"))
    assert model is not None
    found = decode(packet[None], model)
    # At 90 degrees it looks to the right. There the far correction along x is the plain one, that along y the near one.
    up, turn = np.radians(-20 + 37 / 4), np.radians(90 - 0.5)
    level = 25.04 * np.cos(up) - 0.2 * np.sin(up)
    right = level * np.sin(turn) - 0.026 * np.cos(turn)
    assert found.xyz[0, 1] == pytest.approx(-right, abs=0.02)
    assert found.xyz[0, 2] == pytest.approx(25.04 * np.sin(up) + 0.2 * np.cos(up), abs=1e-4)


def _written(folder: Path, packets: list[tuple[np.ndarray, float]]) -> PacketWriter:
    writer = PacketWriter(folder, "", None, main=True)
    for packet, stamp in packets:
        writer.add(packet, stamp)
    writer.close()
    return writer


def test_sweeps_are_cut_ahead_and_one_with_lost_packets_is_not_valid(tmp_path: Path) -> None:
    distance = np.full((12, 32), 1000.0)
    packets = []
    for i in (i for i in range(380) if not 180 <= i < 185):  # 4.8 degrees a packet
        clock = int(i * 1327.1)
        packet = _packet(0x22, [480 * i + 40 * k for k in range(12)], distance, clock=clock)
        packets.append((packet, 100 + clock / 1e6))
    writer = _written(tmp_path / "lidar", packets)
    lidar = Sensor(tmp_path / "lidar")
    assert lidar.valid(6).tolist() == [1, 1, 0, 1, 1, 0]
    assert (writer.whole, writer.lost) == (4, 5)
    assert lidar.channel("count").sample(1) == 75 * 12 * 32
    time = lidar.channel("time").sample(1)
    assert np.nanmax(time) == 0 and np.nanmin(time) == pytest.approx(-0.0995, abs=5e-4)
    assert np.diff(lidar.times(6)[:5]) == pytest.approx(0.0995, abs=5e-4)


def test_a_real_capture_gives_whole_revolutions_at_ten_hertz(captures: Path, tmp_path: Path) -> None:
    capture = captures / "bags" / "sample_velodyne_vlp16_gps.pcap"
    assert import_velodyne(capture, tmp_path / "trace") == 5
    assert list(problems(tmp_path / "trace")) == []
    lidar = Sensor(tmp_path / "trace" / "lidar")
    assert lidar.valid(5).tolist() == [0, 1, 1, 1, 0]
    np.testing.assert_allclose(np.diff(lidar.times(5)[:4]), 0.1, atol=2e-3)


def test_a_cut_capture_is_refused_unless_its_whole_packets_are_asked_for(captures: Path, tmp_path: Path) -> None:
    capture = tmp_path / "cut.pcap"
    capture.write_bytes((captures / "bags" / "sample_velodyne_vlp16_gps.pcap").read_bytes()[:250_000])
    with pytest.raises(FormatError, match=r"byte \d+: the packet there is not whole.*--partial"):
        import_velodyne(capture, tmp_path / "trace")
    assert import_velodyne(capture, tmp_path / "trace", partial=True) == 3


def test_a_capture_of_another_lidar_says_what_would_help(captures: Path, tmp_path: Path) -> None:
    capture = captures / "ouster" / "OS-0-32-U1_v2.2.0_1024x10.pcap"
    with pytest.raises(FormatError, match=r"holds no data packets of a Velodyne lidar.*Hesai, Livox and others"):
        import_velodyne(capture, tmp_path / "trace")
