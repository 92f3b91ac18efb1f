"""What the text of a channel's description says to a program: the names of its axes, and its unit.

A description is one sentence with the unit after a comma, and the axes in brackets: `Power, dB. [doppler, range]`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rover_pipeline.format.meta import ChannelSpec

#: File of a product that states the values of the bins along its axes.
AXES = "axes.json"
#: Formats whose samples are JPEG pictures.
PICTURES = ("mjpg", "jpg")
#: Axes and units of the sensors that the collector records, whose descriptions do not state them.
_RECORDED = {
    "radar/iq": (("chirp", "tx", "rx", "word"), "ADC counts"),
    "lidar/rng": (("beam", "column"), "mm"),
    "lidar/rfl": (("beam", "column"), ""),
    "lidar/nir": (("beam", "column"), "photons"),
    "camera/video.avi": (("row", "column", "colour"), ""),
    "imu/rot": (("roll_pitch_yaw",), "rad"),
    "imu/acc": (("xyz",), "m/s2"),
    "imu/avel": (("xyz",), "rad/s"),
}
#: Units as descriptions write them, and as programs read them.
_UNITS = {
    **{unit: unit for unit in ("m", "mm", "m/s", "m/s2", "m2/s2", "1/m2", "rad", "rad/s", "s", "dB", "degrees")},
    **{"photons": "photons", "ADC counts": "ADC counts", "m/s^2": "m/s2", "seconds": "s", "radians": "rad"},
    **{"meters": "m", "millimeters": "mm"},
}
_ALTERNATIVES = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
#: A unit stands at the beginning, after a comma or after "in", and ends its clause.
_UNIT = re.compile(rf"(?:^|, |\bin )({_ALTERNATIVES})(?=[.:;,]|$| re | since | in )")
_MORE_UNITS = re.compile(rf",? (?:and |or )?({_ALTERNATIVES})\b")


def axes_of(description: str) -> tuple[str, ...]:
    """Names of the axes of a sample, from the first brackets of its description; empty when there are none."""
    brackets = re.search(r"\[([a-z_, ]+)\]", description)
    return tuple(name.strip() for name in brackets[1].split(",")) if brackets else ()


def unit_of(description: str) -> str:
    """The unit of all values of a channel; empty when the description names none, or more than one."""
    if not (found := _UNIT.search(description)):
        return ""
    more = _MORE_UNITS.match(description, found.end())
    return "" if more and _UNITS[more[1]] != _UNITS[found[1]] else _UNITS[found[1]]


def axes_and_unit(sensor: str, name: str, spec: ChannelSpec) -> tuple[tuple[str, ...], str]:
    """The name of every axis of a sample of a channel, `axis_1` where it is not known, and the unit of its values."""
    description = spec.desc or spec.description or ""
    axes, unit = axes_of(description), unit_of(description)
    recorded = _RECORDED.get(f"{sensor}/{name}", ((), ""))
    if len(axes) != len(spec.shape):
        axes = ("row", "column", "colour") if spec.format in PICTURES else recorded[0]
    if len(axes) != len(spec.shape):
        axes = tuple(f"axis_{number}" for number in range(1, len(spec.shape) + 1))
    if sensor == "_sync" and name not in ("ts", "valid"):  # one description serves numbers and times
        return axes, "s" if name.endswith("_dt") else ""
    return axes, unit or recorded[1]


def recorded_channels(sensor: str) -> list[str]:
    """Channels that a sensor has as the collector records it."""
    return [path.partition("/")[2] for path in _RECORDED if path.partition("/")[0] == sensor]
