"""`lidar.json` of a lidar whose sweeps are points and not images: what its channels mean beyond their types."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator

from rover_pipeline.errors import explain, short
from rover_pipeline.format.texts import parse_json
from rover_pipeline.options import Options

#: Maximum sizes of an image: twice those of any sensor. Layout.
_MAX_SIZES = {"pixels_per_column": 256, "columns_per_frame": 8192, "columns_per_packet": 8192}
#: The key of `lidar.json` under which this description stands. The metadata of an Ouster sensor has no such key.
POINTS = "points"
#: Largest time between a point and the time stamp of its sweep, s. A larger one is in another unit. Layout.
MAX_TIME_S = 10.0
_Time = Annotated[float, Field(ge=-MAX_TIME_S, le=MAX_TIME_S)]


class PointsSidecar(Options):
    """What a step must know of a lidar that is points.

    The motion of the lidar within a sweep is `times` where the channel `time` holds when each point was measured,
    `compensated` where the source says that all points are as seen at the instant that `ts` refers to, else `unknown`.
    """

    max_points: int = Field(ge=1, description="Points of the largest sweep: the size of the first axis.")
    motion: Literal["times", "compensated", "unknown"] = "unknown"
    span_s: tuple[_Time, _Time] = Field((0.0, 0.0), description="First and last instant of points after `ts`, s.")
    period_s: float = Field(0.1, gt=0, le=1e6, description="Median time between sweeps, s.")
    full_intensity: float = Field(255.0, gt=0, description="Intensity that a map shows as its brightest.")
    source: str = Field("", max_length=400, description="What the points came from.")

    @field_validator("span_s")
    @classmethod
    def _rises(cls, span: tuple[float, float]) -> tuple[float, float]:
        if span[0] > span[1]:
            raise ValueError("the first instant must not be later than the last one")
        return span


def require_sizes(content: Any) -> None:
    """Raise ValueError for sizes of no Ouster: ouster-sdk cuts them to 32 bits, divides by 0, and ends the process."""
    for key in ("lidar_data_format", "data_format"):  # of new and old firmware
        layout = content.get(key) if isinstance(content, dict) else None
        sizes = layout if isinstance(layout, dict) else {}
        for name, maximum in _MAX_SIZES.items():
            value = sizes.get(name, 1)
            if type(value) is not int or not 0 < value <= maximum:
                raise ValueError(f"{key}: {name} is {short(value)}, must be a whole number from 1 to {maximum}")


def is_points(metadata: str) -> bool:
    """Whether the text of a `lidar.json` describes points. Raises FormatError when it is no JSON."""
    content = parse_json(metadata, "lidar.json")
    return isinstance(content, dict) and POINTS in content


def read_points(metadata: str) -> PointsSidecar:
    """The description in the text of a `lidar.json`.

    Raises:
        FormatError: the text is no JSON.
        ValueError: it does not describe points.
    """
    content: Any = parse_json(metadata, "lidar.json")
    try:
        return PointsSidecar.model_validate(content[POINTS])
    except ValidationError as error:
        raise ValueError(f"lidar.json does not describe points: {explain(error)}") from error
    except (TypeError, LookupError) as error:
        raise ValueError(f"lidar.json does not describe points: it has no {POINTS!r}") from error
