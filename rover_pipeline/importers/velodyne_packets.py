"""Decodes data packets of Velodyne lidars: arrays in, arrays out.

A packet has 1206 bytes: 12 blocks of 100, the sensor's time, and two factory bytes. A block has a flag, the azimuth of
the encoder in hundredths of a degree, clockwise, and 32 times a distance of two bytes and an intensity of one (VLP-16
user manual 63-9243, section 9).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from rover_pipeline.errors import FormatError, naming
from rover_pipeline.format.texts import read_text, read_yaml

#: Corrections of a laser in calibration files: name in YAML -> name in XML, factor from the unit of the latter. Layout.
_KEYS = {
    "rot_correction": ("rotCorrection_", np.pi / 180), "vert_correction": ("vertCorrection_", np.pi / 180),
    "dist_correction": ("distCorrection_", 0.01), "dist_correction_x": ("distCorrectionX_", 0.01),
    "dist_correction_y": ("distCorrectionY_", 0.01), "vert_offset_correction": ("vertOffsetCorrection_", 0.01),
    "horiz_offset_correction": ("horizOffsetCorrection_", 0.01),
}  # fmt: skip
_VLP16: dict[str, Any] = {"resolution": 0.002, "delay": 2.304 * np.arange(16), "sequence": 55.296, "sequences": 2}
#: Names on the command line -> product. The numbers that follow are of packets and their blocks. Layout.
NAMES = {"vlp16": 0x22, "hires": 0x24, "hdl32e": 0x21, "vlp32c": 0x28, "hdl64e": 0}
PACKET_BYTES = 1206
_BLOCK = np.dtype([("flag", "<u2"), ("azimuth", "<u2"), ("returns", [("distance", "<u2"), ("intensity", "u1")], 32)])
_BLOCKS = 12
_UPPER, _LOWER = 0xEEFF, 0xDDFF
_DUAL = 0x39
TURN = 36000
#: Distances between which the corrections of an HDL-64E were measured, m (manual of the S2, appendix on calibration).
#: Layout.
_NEAR_X, _NEAR_Y, _FAR = 2.4, 1.93, 25.04


class Model(NamedTuple):
    """A type of lidar. Lasers are numbered as in a packet."""

    name: str
    elevation: np.ndarray  #: f8 (laser,), rad.
    azimuth: np.ndarray  #: f8 (laser,), rad, which is added to that of the encoder, clockwise.
    resolution: float  #: m of a unit of distance.
    delay: np.ndarray  #: f8 (laser,), us after the beginning of its firing sequence.
    sequence: float  #: us from one firing sequence to the next one.
    sequences: int = 1  #: firing sequences of a laser in a block.
    half: bool = False  #: whether a block holds every second half of the lasers (HDL-64E).
    #: f8 (laser, 5), m: distance, distance along x and along y, vertical and horizontal offset; None where the manual
    #: gives none.
    corrections: np.ndarray | None = None

    @property
    def rings(self) -> np.ndarray:
        """u2 (laser,), place of each laser counted from the lowest."""
        return np.argsort(np.argsort(self.elevation, kind="stable")).astype("u2")


def _model(name: str, elevation: list[float], azimuth: list[float] | None = None, **others: Any) -> Model:
    offsets = np.zeros(len(elevation)) if azimuth is None else np.radians(azimuth)
    return Model(name, np.radians(elevation), offsets, **others)


#: Product identifier, the last byte of a packet (manuals, "factory bytes") -> the lidar. Layout.
MODELS: Mapping[int, Model] = {
    0x22: _model("VLP-16", [-15, 1, -13, 3, -11, 5, -9, 7, -7, 9, -5, 11, -3, 13, -1, 15], **_VLP16),
    0x24: _model(
        "Puck Hi-Res",
        [-10, 2 / 3, -26 / 3, 2, -22 / 3, 10 / 3, -6, 14 / 3, -14 / 3, 6, -10 / 3, 22 / 3, -2, 26 / 3, -2 / 3, 10],
        **_VLP16,
    ),
    0x21: _model(
        "HDL-32E",
        # From -30.67 to +10.67 degrees in steps of 4/3; even lasers are the lower half.
        [round(-92 / 3 + 4 / 3 * (i // 2 if i % 2 == 0 else 16 + i // 2), 2) for i in range(32)],
        resolution=0.002,
        delay=1.152 * np.arange(32),
        sequence=46.08,
    ),
    0x28: _model(
        "VLP-32C",
        [
            -25, -1, -1.667, -15.639, -11.31, 0, -0.667, -8.843, -7.254, 0.333, -0.333, -6.148, -5.333, 1.333, 0.667,
            -4, -4.667, 1.667, 1, -3.667, -3.333, 3.333, 2.333, -2.667, -3, 7, 4.667, -2.333, -2, 15, 10.333, -1.333,
        ],
        [
            1.4, -4.2, 1.4, -1.4, 1.4, -1.4, 4.2, -1.4, 1.4, -4.2, 1.4, -1.4, 4.2, -1.4, 4.2, -1.4,
            1.4, -4.2, 1.4, -4.2, 4.2, -1.4, 1.4, -1.4, 1.4, -1.4, 1.4, -4.2, 4.2, -1.4, 1.4, -1.4,
        ],
        resolution=0.004,
        delay=2.304 * (np.arange(32) // 2),
        sequence=55.296,
    ),
}  # fmt: skip


def calibrated_64(path: Path) -> Model:
    """An HDL-64E with the calibration of its own, a `db.xml` of Velodyne or a YAML file of the ROS driver. Raises
    FormatError where the file has no corrections of 64 lasers."""
    damage = (KeyError, TypeError, ValueError, ElementTree.ParseError)
    with naming(path, OSError), naming(f"{path}: is no calibration of an HDL-64E", *damage, limit=100):
        lasers, resolution = _from_xml(path) if path.suffix.lower() == ".xml" else _from_yaml(path)
        table = np.array([[float(laser[key]) for key in _KEYS] for laser in lasers])
    if len(table) != 64 or not (np.abs(table) < 10).all() or not 0 < resolution < 0.1:
        raise FormatError(f"{path}: is no calibration of an HDL-64E: it describes {len(table)} lasers")
    # A sequence of all lasers takes 48 us. Their order in it differs between series; they are spread evenly here.
    delay = np.tile(np.arange(32) * 1.5, 2)
    return Model("HDL-64E", table[:, 1], -table[:, 0], resolution, delay, 48.0, half=True, corrections=table[:, 2:])


def _from_yaml(path: Path) -> tuple[list[Any], float]:
    content = read_yaml(path)
    lasers = sorted(content["lasers"], key=lambda laser: int(laser["laser_id"]))
    for laser in lasers:
        # Without a calibration at two points, corrections along x and y are those of the distance.
        if not laser.get("two_pt_correction_available"):
            laser["dist_correction_x"] = laser["dist_correction_y"] = laser["dist_correction"]
    return lasers, float(content.get("distance_resolution", 0.002))


def _from_xml(path: Path) -> tuple[list[Any], float]:
    text = read_text(path)
    if "<!ENTITY" in text:
        raise ValueError("it defines entities")
    root = ElementTree.fromstring(text)
    lasers: list[dict[str, float]] = []
    for item in root.iter("px"):
        found = {key: item.find(name) for key, (name, _) in _KEYS.items()}
        if found["rot_correction"] is not None:
            number = item.find("id_")
            laser = {key: float(each.text or "nan") * _KEYS[key][1] for key, each in found.items() if each is not None}
            laser["laser_id"] = float((number.text if number is not None else "") or len(lasers))
            lasers.append(laser)
    step = root.find(".//distLSB_")
    resolution = float(step.text or 0.2) / 100 if step is not None else 0.002
    return sorted(lasers, key=lambda laser: laser["laser_id"]), resolution


class Returns(NamedTuple):
    """Returns of some packets, in the order in which they were measured."""

    packet: np.ndarray  #: i8 (N,), the packet each is from.
    azimuth: np.ndarray  #: f8 (N,), hundredths of a degree, clockwise, of the encoder at the moment of the shot.
    time: np.ndarray  #: f8 (N,), us after the beginning of its packet.
    xyz: np.ndarray  #: f4 (N, 3), m, front-left-up; azimuth zero is ahead.
    intensity: np.ndarray  #: u1 (N,).
    ring: np.ndarray  #: u2 (N,), counted from the lowest laser.


def is_data(packet: np.ndarray) -> bool:
    """Whether bytes, u1 (N,), are a data packet: they begin with the flag of a block."""
    return len(packet) == PACKET_BYTES and packet[0] == 0xFF and packet[1] in (0xEE, 0xDD)


def find_model(packets: np.ndarray) -> int | None:
    """The product of packets, u1 (packet, 1206): a key of `MODELS`, 0 = HDL-64E, None = unknown."""
    if (packets[:, 101] == 0xDD).any() and (packets[:, 1] == 0xEE).any():
        return 0  # only the HDL-64E has lower blocks
    products, counts = np.unique(packets[:, 1205], return_counts=True)
    product = int(products[counts.argmax()])
    return product if product in MODELS else None


def sensor_times(packets: np.ndarray) -> np.ndarray:
    """The sensor's time of each packet, when its first block was measured, us since the hour, i8 (packet,)."""
    return np.ascontiguousarray(packets[:, 1200:1204]).view("<u4")[:, 0].astype("i8")


def decode(packets: np.ndarray, model: Model) -> Returns:
    """All returns of packets, u1 (packet, 1206). Of two returns of a shot that are equal one is given.

    The azimuth of a shot is interpolated between those of blocks and rounded to the resolution of the encoder, as the
    manual computes it. Beyond the last block the lidar turns as fast as before.
    """
    blocks = np.ascontiguousarray(packets[:, : _BLOCKS * 100]).view(_BLOCK)
    azimuth = blocks["azimuth"].astype("i8") % TURN
    distance = blocks["returns"]["distance"]
    group = _group_size(packets, blocks, model)
    first = np.arange(_BLOCKS) // group * group
    groups = _BLOCKS // group

    # Azimuth gained from each group of blocks to the next one; the last one is followed by another packet.
    starts = azimuth[:, ::group]
    gain = np.empty((len(packets), groups), "i8")
    gain[:, :-1] = (starts[:, 1:] - starts[:, :-1]) % TURN
    gain[:, -1] = gain[:, -2]
    gain = np.where(gain > TURN // 2, 0, gain)  # damaged

    lane = np.arange(32)
    lasers = np.broadcast_to(lane % len(model.elevation), (_BLOCKS, 32))
    if model.half:
        lower = blocks["flag"] == _LOWER
        laser = lasers[None] + 32 * lower[:, :, None]
    else:
        laser = np.broadcast_to(lasers, distance.shape)
    within = model.delay[laser] + model.sequence * (lane // len(model.elevation))  # us in its block
    duration = model.sequence * model.sequences
    number = np.arange(_BLOCKS) // group
    time = within + (duration * number)[None, :, None]
    turned = 0.0 if model.half else gain[:, number, None] * (within / duration)
    shot = np.broadcast_to(np.round(azimuth[:, first][:, :, None] + turned) % TURN, distance.shape)

    kept = (distance > 0) & np.isin(blocks["flag"], (_UPPER, _LOWER))[:, :, None]
    dual = group // (2 if model.half else 1) == 2
    if dual:
        pairs = distance.reshape(len(packets), groups, 2, -1)
        kept.reshape(len(packets), groups, 2, -1)[:, :, 1] &= pairs[:, :, 0] != pairs[:, :, 1]
    packet, _, _ = np.nonzero(kept)
    chosen = laser[kept]
    order = np.argsort(packet * 1e6 + time[kept], kind="stable")
    xyz = positions(distance[kept], shot[kept], chosen, model)
    result = (packet, shot[kept], time[kept], xyz, blocks["returns"]["intensity"][kept], model.rings[chosen])
    return Returns(*(each[order] for each in result))


def _group_size(packets: np.ndarray, blocks: np.ndarray, model: Model) -> int:
    """Blocks that were measured together: both returns of a shot, and both halves of an HDL-64E."""
    azimuth = blocks["azimuth"]
    if model.half:
        return 4 if np.median(azimuth[:, 2] == azimuth[:, 0]) > 0.5 else 2
    return 2 if np.median(packets[:, 1204] == _DUAL) > 0.5 else 1


def positions(distance: np.ndarray, azimuth: np.ndarray, laser: np.ndarray, model: Model) -> np.ndarray:
    """Points, f4 (N, 3), front-left-up, m, from stored distances, azimuths in hundredths of a degree, and lasers."""
    angle = np.radians(azimuth / 100) + model.azimuth[laser]
    elevation = model.elevation[laser]
    reach = distance * model.resolution
    cos_e, sin_e = np.cos(elevation), np.sin(elevation)
    ahead, right = np.cos(angle), np.sin(angle)
    if model.corrections is None:
        level = reach * cos_e
        return np.stack([level * ahead, -level * right, reach * sin_e], axis=1).astype("f4")
    along, along_x, along_y, up, aside = model.corrections[laser].T
    reach = reach + along
    level = reach * cos_e - up * sin_e
    # x of the manual is to the right, y ahead; corrections were measured near and far along both.
    x, y = np.abs(level * right - aside * ahead), np.abs(level * ahead + aside * right)
    more_x = (along - along_x) * (x - _NEAR_X) / (_FAR - _NEAR_X) + along_x - along
    more_y = (along - along_y) * (y - _NEAR_Y) / (_FAR - _NEAR_Y) + along_y - along
    level_x = (reach + more_x) * cos_e - up * sin_e
    level_y = (reach + more_y) * cos_e - up * sin_e
    x = level_x * right - aside * ahead
    y = level_y * ahead + aside * right
    return np.stack([y, -x, reach * sin_e + up * cos_e], axis=1).astype("f4")
