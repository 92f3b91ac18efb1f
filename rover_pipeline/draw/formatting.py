"""Numbers, times and lists as text for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rover_pipeline.errors import counted

_MINUS = "\N{MINUS SIGN}"


def count(number: int, noun: str, plural: str = "") -> str:
    """1 sample, 2,000 samples; see `errors.counted`."""
    return counted(number, noun, plural).replace(str(number), f"{number:,}", 1)


def duration(seconds: float) -> str:
    """0.25 s, 29.8 s, 10 min 4 s, 1 h 2 min."""
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def percent(share: float) -> str:
    """<0.01 %, 0.02 %, 3.1 %, 25 %."""
    value = 100 * share
    if 0 < value < 0.01:
        return "<0.01 %"
    return f"{value:.2f} %" if value < 1 else f"{value:.1f} %" if value < 10 else f"{value:.0f} %"


def milliseconds(value: float) -> str:
    """0.03 ms, 1.2 ms, 48 ms, 1,200 ms."""
    size = abs(value)
    text = f"{value:.2f} ms" if size < 1 else f"{value:.1f} ms" if size < 10 else f"{value:,.0f} ms"
    return text.replace("-", _MINUS)


def offset(seconds: float) -> str:
    """+24 ms, -3 ms."""
    return f"{1e3 * seconds:+,.0f} ms".replace("-", _MINUS)


def ppm(value: float) -> str:
    """A relative difference, in percent if it is large: -2 ppm, +1.4 %."""
    if abs(value) < 0.5:
        return "0 ppm"
    text = f"{value:+,.0f} ppm" if abs(value) < 1000 else f"{value / 1e4:+.2f} %"
    return text.replace("-", _MINUS)


def significant(value: float) -> str:
    """A number with three significant digits: 0.0123, 1.5, 1,230, 13.5 M, 4.2e-05."""
    sign, size = _MINUS if value < 0 else "", abs(value)
    for factor, unit in ((1e9, " G"), (1e6, " M")):
        if size >= factor:
            return f"{sign}{size / factor:.3g}{unit}"
    if 0 < size < 1e-3:
        return f"{sign}{size:.2g}"
    return f"{sign}{size:,.0f}" if size >= 1000 else f"{sign}{size:.3g}"


def metres(value: float) -> str:
    """0.3 mm, 42 mm, 1.25 m, 310 m."""
    if value < 0.1:
        return f"{round(1e3 * value, 3):.2g} mm" if value < 0.01 else f"{1e3 * value:.0f} mm"
    return f"{value:.2f} m" if value < 10 else f"{value:,.1f} m"


def utc(epoch_s: float) -> str:
    """Seconds since the Unix epoch: 2026-11-21 08:29:51 UTC."""
    try:
        return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return f"{epoch_s:.3f} s"


def elapsed(seconds: float, longest: float) -> str:
    """A time since the begin, in the format that the longest such time needs: 12.4 s, 2:05."""
    if longest < 60:
        return f"{seconds:.1f} s"
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if longest >= 3600 else f"{rest // 60}:{rest % 60:02}"


def join(items: Sequence[str], maximum: int = 3) -> str:
    """A list without repetitions: a, b and c. Longer ones end with the number of the remaining items."""
    unique = list(dict.fromkeys(items))
    if len(unique) > maximum:
        unique = [*unique[: maximum - 1], f"{len(unique) - maximum + 1} more"]
    return " and ".join([", ".join(unique[:-1]), unique[-1]]) if len(unique) > 1 else "".join(unique)
