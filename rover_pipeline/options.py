"""The base of every section of the configuration: typed, immutable, and strict about names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rover_pipeline.errors import ConfigError, did_you_mean, explain


class Options(BaseModel):
    """A section of the configuration. Unknown keys are errors, fields carry their documentation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def parse(cls, values: Mapping[str, Any], section: str = "") -> Self:
        """Validate plain values.

        Args:
            section: dotted name to put before a key in messages.

        Raises:
            ConfigError: names the key, and the nearest known one when it is unknown.
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
    """What may be used of a recording that is not whole."""

    truncate: bool = Field(
        False,
        description="Use the whole samples that all channels share of a recording that was cut off, instead of "
        "stopping with an error.",
    )
    mark_corrupt: bool = Field(
        False,
        description="Replace samples that cannot be decoded by zeros with `valid` = 0, instead of stopping.",
    )
