"""Figures of samples: of a sensor those of `rover-pipeline picture`, of a channel one of its own."""

from __future__ import annotations

import io
from datetime import UTC, datetime

from matplotlib.figure import Figure

from rover_pipeline.errors import FormatError
from rover_pipeline.export.picture import draw
from rover_pipeline.export.picture.values import draw_channel
from rover_pipeline.format import sensor as stored
from rover_pipeline.reading.selection import select
from rover_pipeline.reading.sensor import Sensor


class _Shown(Figure):
    """A figure that a notebook shows even where nobody has imported pyplot."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()


def figure_of(sensor: Sensor, sample: int, channel: str | None) -> Figure:
    """See `Sensor.plot`."""
    selected = select(sample, len(sensor), 0, str(sensor.path)).samples
    if not isinstance(selected, int):
        raise FormatError(f"{sensor.path}: a figure shows one sample; give its number")
    if channel is None:
        figure = draw(sensor.path.parent, sensor.name, selected)
    else:
        name = sensor.channel(channel).name
        figure = Figure(figsize=(8, 5), layout="constrained")
        draw_channel(figure, stored.Sensor(sensor.path), name, selected)
        time = datetime.fromtimestamp(float(sensor.ts[selected]), UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        remark = "" if sensor.valid[selected] else ", not valid"
        figure.suptitle(f"{sensor.name}/{name}, sample {selected} of {len(sensor)} at {time} UTC{remark}")
    figure.__class__ = _Shown
    return figure
