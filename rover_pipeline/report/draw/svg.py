"""Matplotlib's SVG made ready for a page: its colours follow the light or dark theme, its text the font of the page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from rover_pipeline.report.read.sensors import USUAL_SENSORS

_VARIABLES = (
    "ink", "muted", "grid", "accent", "bad", "fair", "good", "lidar", "radar", "camera", "imu", "other", "derived",
    "card",
)  # fmt: skip
#: CSS variables of the page (`style.css`) and the placeholder colours in which Matplotlib draws them.
COLOURS = {name: f"#0001{number:02x}" for number, name in enumerate(_VARIABLES)}
_VARIABLE_OF = {colour: f"var(--{name})" for name, colour in COLOURS.items()}

_SVG = "{http://www.w3.org/2000/svg}"
#: Attributes with coordinates in pixels.
_COORDINATES = ("d", "transform", "x", "y", "points")
_MORE_THAN_TWO_DECIMALS = re.compile(r"(-?\d+\.\d\d)\d+")


def colour_name(sensor: str) -> str:
    """The name of a sensor's colour in `COLOURS`."""
    if sensor.startswith("_"):
        return "derived"
    return sensor if sensor in USUAL_SENSORS else "other"


def themed_svg(file: bytes) -> str:
    """The `svg` element of a file by Matplotlib, to be put into HTML.

    Placeholder colours become CSS variables, and coordinates keep two decimals. Ids stay unique in the page as long as
    every figure has an `svg.hashsalt` of its own, but for those of groups: these are removed.
    """
    root = ElementTree.fromstring(file)
    for defs in root.findall(f"{_SVG}defs[{_SVG}style]"):
        root.remove(defs)  # This style sheet would apply to every element of the page.
    _, _, width, height = root.attrib["viewBox"].split()
    for element in root.iter():
        # Names are `{namespace}name`. HTML has no namespaces.
        element.tag = element.tag.rpartition("}")[2]
        attributes = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
        if element.tag == "g":
            attributes.pop("id", None)
        if "style" in attributes:
            attributes["style"] = _themed_style(attributes["style"])
        for name in attributes.keys() & _COORDINATES:
            attributes[name] = _MORE_THAN_TWO_DECIMALS.sub(r"\1", " ".join(attributes[name].split()))
        element.attrib = attributes
    root.attrib = {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}
    ElementTree.indent(root, space="")
    return ElementTree.tostring(root, encoding="unicode")


def _themed_style(style: str) -> str:
    """CSS declarations with variables instead of placeholder colours, and without a font family."""
    themed = []
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font":  # Matplotlib before 3.11 writes weight, size and family as one declaration.
            *weight, size = value.partition("px")[0].split()
            themed += [f"font-weight: {weight[-1]}"] if weight else []
            themed.append(f"font-size: {size}px")
        elif name and name != "font-family":
            themed.append(f"{name}: {_VARIABLE_OF.get(value, value)}")
    return "; ".join(themed)
