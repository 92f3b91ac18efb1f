"""What the text of a channel's description says to a program: the names of its axes, and its unit.

A description is one sentence with the unit after a comma, and the axes in brackets: `Power, dB. [doppler, range]`.
"""

from __future__ import annotations

import re

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
