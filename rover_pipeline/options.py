"""The base of every section of the configuration. Options are typed, immutable, and have no unknown names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rover_pipeline.errors import ConfigError, did_you_mean, explain


class Options(BaseModel):
    """A section of the configuration. Unknown keys are errors, and every field has a description."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def parse(cls, values: Mapping[str, Any], section: str = "") -> Self:
        """Validate plain values.

        Args:
            section: dotted name that stands before a key in messages.

        Raises:
            ConfigError: a key is unknown, or a value is wrong. The message names the key.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            prefix = f"{section}." if section else ""
            if first["type"] != "extra_forbidden":
                raise ConfigError(f"config: {prefix}{explain(error)}") from error
            *parents, key = (str(part) for part in first["loc"])
            known = cls._fields_at(parents)
            name = ".".join([*parents, key])
            raise ConfigError(f"config: {prefix}{name}: unknown key; {did_you_mean(key, known)}") from error

    @classmethod
    def _fields_at(cls, parents: list[str]) -> list[str]:
        model: type[BaseModel] = cls
        for part in parents:
            field = model.model_fields.get(part)
            kinds = () if field is None else (field.annotation, *get_args(field.annotation))
            below = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
            if not below:
                break
            model = below[0]
        return list(model.model_fields)


class InputOptions(Options):
    """Treatment of damaged recordings."""

    truncate: bool = Field(
        False,
        description="true = use a recording whose channels have unequal lengths up to the last sample that all "
        "channels hold. false = stop with an error.",
    )
    mark_corrupt: bool = Field(
        False,
        description="true = replace samples that cannot be decoded by zeros with `valid` = 0. false = stop with an "
        "error.",
    )


class ReportOptions(Options):
    """`_report`. Nothing here changes a virtual sensor: it says what the page shows, and what it calls wrong."""

    instants: int = Field(
        6,
        ge=0,
        le=48,
        description="Evenly spaced instants whose camera, lidar and radar frames are shown side by side.",
    )
    picture_width: int = Field(640, ge=64, le=1920, description="Largest width of a picture, pixels.")
    max_gap_s: float = Field(
        1.0, gt=0, description="A sensor that is silent for longer than this, s, leaves the recording incomplete."
    )
    max_lost_share: float = Field(0.001, ge=0, le=1, description="Share of lost samples above which a sensor is named.")
    max_invalid_share: float = Field(
        0.05, ge=0, le=1, description="Share of samples with `valid` = 0 above which a sensor is named."
    )
    max_late_s: float = Field(
        1.0,
        gt=0,
        description="A raw sensor that starts this much after the first one, or ends before the last, is named.",
    )
    max_rate_error: float = Field(
        0.02, gt=0, description="Difference from the configured rate, as a share of it, above which a sensor is named."
    )


class PageOptions(ReportOptions):
    """What the page of a recording depends on besides the recording."""

    outputs: tuple[str, ...] | None = Field(
        None, description="Outputs that were asked for, as in the configuration; null = not known."
    )
