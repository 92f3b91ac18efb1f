"""The colour table of all pictures. It needs no Matplotlib: lists of recordings take the colours of sensors from it."""

from __future__ import annotations

_SENSORS = ("lidar", "radar", "camera", "imu")
_VARIABLES = ("ink", "muted", "grid", "accent", "bad", "fair", "good", *_SENSORS, "other", "derived", "card")
#: CSS variables of the page (`style.css`) and the placeholder colours in which Matplotlib draws them.
COLOURS = {name: f"#0001{number:02x}" for number, name in enumerate(_VARIABLES)}

#: Quantity -> Matplotlib's map of its values to colours. Near, high and occupied are bright; `value` is all else.
COLOUR_MAPS = {"distance": "turbo_r", "height": "turbo", "occupancy": "cividis", "power": "inferno", "value": "viridis"}
#: RGB of a point that approaches, stands still and recedes. Other speeds have colours between these. Layout.
APPROACHING, STILL, RECEDING = (70, 110, 255), (255, 255, 255), (255, 60, 60)

#: RGB on dark pictures: the ground, rings at round distances and labels, remarks, captions, and the rover. Layout.
GROUND, RING, RING_LABEL, REMARK, CAPTION, ROVER = (
    (24, 28, 34), (60, 64, 70), (140, 146, 154), (120, 120, 120), (235, 235, 235), (255, 255, 255),
)  # fmt: skip
#: Minimum height of a ceiling, which hides the room from above, over the lidar, m. Tuned: by hand.
CEILING_M = 0.6


def colour_name(sensor: str) -> str:
    """The name of a sensor's colour in `COLOURS`: that of the type with which its name begins, as `radar_left` does."""
    if sensor.startswith("_"):
        return "derived"
    return next((type for type in _SENSORS if f"{sensor}_".startswith(f"{type}_")), "other")
