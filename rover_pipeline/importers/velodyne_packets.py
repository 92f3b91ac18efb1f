"""Decodes data packets of Velodyne lidars: arrays in, arrays out.

A packet has 1206 bytes: 12 blocks of 100, the sensor's time, and two factory bytes. A block has a flag, the azimuth of
the encoder in hundredths of a degree, clockwise, and 32 times a distance of two bytes and an intensity of one (VLP-16
user manual 63-9243, section 9).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.importers.velodyne_models import MODELS, Model

PACKET_BYTES = 1206
_BLOCK = np.dtype([("flag", "<u2"), ("azimuth", "<u2"), ("returns", [("distance", "<u2"), ("intensity", "u1")], 32)])
_BLOCKS = 12
_UPPER, _LOWER = 0xEEFF, 0xDDFF
_DUAL = 0x39
_TURN = 36000
#: Distances between which the corrections of an HDL-64E were measured, m (manual of the S2, appendix on calibration).
_NEAR_X, _NEAR_Y, _FAR = 2.4, 1.93, 25.04


class Returns(NamedTuple):
    """Returns of some packets, in the order in which they were measured.

    Attributes:
        packet: i8 (N,), the packet each is from.
        azimuth: f8 (N,), hundredths of a degree, clockwise, of the encoder at the moment of the shot.
        time: f8 (N,), us after the beginning of its packet.
        xyz: f4 (N, 3), m, front-left-up; azimuth zero is ahead.
        intensity: u1 (N,); ring: u2 (N,), counted from the lowest laser.
    """

    packet: np.ndarray
    azimuth: np.ndarray
    time: np.ndarray
    xyz: np.ndarray
    intensity: np.ndarray
    ring: np.ndarray


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
    azimuth = blocks["azimuth"].astype("i8") % _TURN
    distance = blocks["returns"]["distance"]
    group = _group_size(packets, blocks, model)
    first = np.arange(_BLOCKS) // group * group
    groups = _BLOCKS // group

    # Azimuth gained from each group of blocks to the next one; the last one is followed by another packet.
    starts = azimuth[:, ::group]
    gain = np.empty((len(packets), groups), "i8")
    gain[:, :-1] = (starts[:, 1:] - starts[:, :-1]) % _TURN
    gain[:, -1] = gain[:, -2]
    gain = np.where(gain > _TURN // 2, 0, gain)  # damaged

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
    shot = np.broadcast_to(np.round(azimuth[:, first][:, :, None] + turned) % _TURN, distance.shape)

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
