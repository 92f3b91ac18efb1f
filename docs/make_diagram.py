"""What is made from what: `python -m docs.make_diagram` draws the table of steps as `pictures/pipeline.svg`.

Columns are in the order in which things are made. A line that follows from two others is left out: whoever needs
`_odom` may read what `_odom` is made from, too. Dashed lines lead from what is used only where it is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

from rover_pipeline.engine.step import OPTIONAL, Step
from rover_pipeline.table import TABLE

PICTURE = Path(__file__).parent / "pictures" / "pipeline.svg"
RAW = ("lidar", "radar", "imu", "camera")
#: Sizes of boxes and of the room between them, pixels.
_WIDTH, _HEIGHT, _ACROSS, _DOWN, _MARGIN = 168, 24, 62, 9, 16
_COLOURS = {"lidar": "#0b6e4f", "radar": "#8a3ffc", "imu": "#a2530b", "camera": "#0f62fe"}
#: Made from several sensors, or from all.
_MIXED = "#3d4450"


def sources(step: Step) -> dict[str, bool]:
    """What a step is made from at the defaults: sensor -> whether it can do without. Sidecars are no data."""
    step = step.for_options(step.options() if step.options else None)
    found: dict[str, bool] = {}
    for entry in step.references():
        sensor, _, channel = entry.removesuffix(OPTIONAL).partition("/")
        if channel and not channel.endswith((".json", ".yaml")):
            for name in RAW if sensor == "*" else (sensor,):
                found[name] = found.get(name, True) and entry.endswith(OPTIONAL)
    return {name: optional for name, optional in found.items() if name in RAW or name in TABLE}


def edges() -> dict[tuple[str, str], bool]:
    """The lines of the picture, (from, to) -> whether it is dashed. The page, made from all, has a place of its own."""
    made_from = {name: sources(step) for name, step in TABLE.items() if not step.run.waits_for_all}

    def reaches(start: str, end: str) -> bool:
        return any(start == source or reaches(start, source) for source in made_from.get(end, {}))

    return {
        (source, name): optional
        for name, found in made_from.items()
        for source, optional in found.items()
        if not any(reaches(source, other) for other in found if other != source)
    }


def columns(lines: Mapping[tuple[str, str], bool]) -> list[list[str]]:
    """Names by column: each one column behind the last of what it is made from, near the height of what that has."""
    depth = dict.fromkeys(RAW, 0)

    def place(name: str) -> int:
        if name not in depth:
            depth[name] = 1 + max(place(source) for source, to in lines if to == name)
        return depth[name]

    found: list[list[str]] = [list(RAW)] + [[] for _ in range(max(place(to) for _, to in lines))]
    for name in (name for name in TABLE if name in depth):
        found[depth[name]].append(name)
    for number, column in enumerate(found[1:], 1):
        height = {name: at / len(each) for each in found[:number] for at, name in enumerate(each)}
        above = {name: [height[source] for source, to in lines if to == name] for name in column}
        column.sort(key=lambda name: sum(above[name]) / len(above[name]))
    return found


def svg() -> str:
    """The picture."""
    lines = edges()
    placed, corner = columns(lines), {}
    rows = max(map(len, placed))
    height = 2 * _MARGIN + rows * (_HEIGHT + _DOWN) - _DOWN
    for number, column in enumerate(placed):
        room = (height - 2 * _MARGIN - len(column) * _HEIGHT) / (len(column) + 1)
        for at, name in enumerate(column):
            corner[name] = (_MARGIN + number * (_WIDTH + _ACROSS), round(_MARGIN + room + at * (_HEIGHT + room)))
    page = next(name for name, step in TABLE.items() if step.run.waits_for_all)
    right = _MARGIN + len(placed) * (_WIDTH + _ACROSS) - _ACROSS + 20
    width = right + 96 + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12">',
        "<title>What is made from what</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
    ]
    for (source, name), dashed in lines.items():
        (x, y), (to_x, to_y) = corner[source], corner[name]
        x, y, to_y, bend = x + _WIDTH, y + _HEIGHT // 2, to_y + _HEIGHT // 2, _ACROSS * 0.6
        path = f"M{x} {y}C{x + bend:g} {y} {to_x - bend:g} {to_y} {to_x} {to_y}"
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        parts.append(f'<path d="{path}" fill="none" stroke="{_colour(source)}" stroke-opacity="0.55"{dash}/>')
    for name, (x, y) in corner.items():
        parts += _box(name, x, y, _WIDTH, _HEIGHT)
    parts += _box(page, right, _MARGIN, 96, height - 2 * _MARGIN)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _colour(name: str) -> str:
    return next((colour for sensor, colour in _COLOURS.items() if name.lstrip("_").startswith(sensor)), _MIXED)


def _box(name: str, x: int, y: int, width: int, height: int) -> list[str]:
    """A box with a name: filled for raw sensors, with a bold frame for what is made by default."""
    colour, raw = _colour(name), name in RAW
    bold = raw or TABLE[name].shown.default
    fill, ink = (colour, "#ffffff") if raw else ("#ffffff", colour)
    frame, weight = (2, "bold") if bold else (1, "normal")
    return [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{fill}" stroke="{colour}" '
        f'stroke-width="{frame}"/>',
        f'<text x="{x + width // 2}" y="{y + height // 2 + 4}" text-anchor="middle" fill="{ink}" '
        f'font-weight="{weight}">{escape(name)}</text>',
    ]


if __name__ == "__main__":
    PICTURE.write_text(svg(), encoding="utf-8")
