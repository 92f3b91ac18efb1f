"""Lasers of Velodyne's lidars: angles, corrections and firing times, from the manuals.

Sources: VLP-16 user manual (63-9243), VLP-32C user manual (63-9325), HDL-32E user manual (63-9113), HDL-64E S3 user
manual (63-HDL64ES3). An HDL-64E has a calibration of its own, which comes with it as a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from rover_pipeline.errors import FormatError, short
from rover_pipeline.format.texts import read_text, read_yaml

#: Corrections of a laser in calibration files: name in YAML -> name in XML, factor from the unit of the latter.
_KEYS = {
    "rot_correction": ("rotCorrection_", np.pi / 180), "vert_correction": ("vertCorrection_", np.pi / 180),
    "dist_correction": ("distCorrection_", 0.01), "dist_correction_x": ("distCorrectionX_", 0.01),
    "dist_correction_y": ("distCorrectionY_", 0.01), "vert_offset_correction": ("vertOffsetCorrection_", 0.01),
    "horiz_offset_correction": ("horizOffsetCorrection_", 0.01),
}  # fmt: skip


class Model(NamedTuple):
    """A type of lidar. Lasers are numbered as in a packet.

    Attributes:
        elevation, azimuth: f8 (laser,), rad; azimuth is added to that of the encoder, clockwise.
        resolution: m of a unit of distance.
        delay: f8 (laser,), us after the beginning of its firing sequence.
        sequence: us from one firing sequence to the next one; sequences: of a laser in a block.
        half: a block holds every second half of the lasers (HDL-64E).
        corrections: f8 (laser, 5), m: distance, distance along x and along y, vertical and horizontal offset; None
            where the manual gives none.
    """

    name: str
    elevation: np.ndarray
    azimuth: np.ndarray
    resolution: float
    delay: np.ndarray
    sequence: float
    sequences: int = 1
    half: bool = False
    corrections: np.ndarray | None = None

    @property
    def rings(self) -> np.ndarray:
        """u2 (laser,), place of each laser counted from the lowest."""
        return np.argsort(np.argsort(self.elevation, kind="stable")).astype("u2")


def _model(name: str, elevation: list[float], azimuth: list[float] | None = None, **others: Any) -> Model:
    offsets = np.zeros(len(elevation)) if azimuth is None else np.radians(azimuth)
    return Model(name, np.radians(elevation), offsets, **others)


_VLP16: dict[str, Any] = {"resolution": 0.002, "delay": 2.304 * np.arange(16), "sequence": 55.296, "sequences": 2}
#: Product identifier, the last byte of a packet (manuals, "factory bytes") -> the lidar.
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
#: Names on the command line.
NAMES = {"vlp16": 0x22, "hires": 0x24, "hdl32e": 0x21, "vlp32c": 0x28, "hdl64e": 0}


def calibrated_64(path: Path) -> Model:
    """An HDL-64E with the calibration of its own, a `db.xml` of Velodyne or a YAML file of the ROS driver.

    Raises:
        FormatError: the file has no corrections of 64 lasers.
    """
    try:
        lasers, resolution = _from_xml(path) if path.suffix.lower() == ".xml" else _from_yaml(path)
        table = np.array([[float(laser[key]) for key in _KEYS] for laser in lasers])
    except OSError as error:
        raise FormatError(f"{path}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError, ElementTree.ParseError) as error:
        problem = f"lacks {error}" if isinstance(error, KeyError) else short(str(error), 100)
        raise FormatError(f"{path}: is no calibration of an HDL-64E ({problem})") from error
    if len(table) != 64 or not (np.abs(table) < 10).all() or not 0 < resolution < 0.1:
        raise FormatError(f"{path}: is no calibration of an HDL-64E: it describes {len(table)} lasers")
    # A sequence of all lasers takes 48 us. Their order in it differs between series; they are spread evenly here.
    delay = np.tile(np.arange(32) * 1.5, 2)
    return Model("HDL-64E", table[:, 1], -table[:, 0], resolution, delay, 48.0, half=True, corrections=table[:, 2:])


def _from_yaml(path: Path) -> tuple[list[Any], float]:
    content = read_yaml(path)
    lasers = sorted(content["lasers"], key=lambda laser: int(laser["laser_id"]))
    two_points = [{**laser, **_fallback(laser)} for laser in lasers]
    return two_points, float(content.get("distance_resolution", 0.002))


def _fallback(laser: Mapping[str, Any]) -> dict[str, float]:
    """Without a calibration at two points, corrections along x and y are those of the distance."""
    if laser.get("two_pt_correction_available"):
        return {}
    return {"dist_correction_x": laser["dist_correction"], "dist_correction_y": laser["dist_correction"]}


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
