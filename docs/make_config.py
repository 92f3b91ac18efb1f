"""Prints the default configuration, from its models: `python -m docs.make_config > config/config.yaml`."""

from __future__ import annotations

import json
import textwrap

from pydantic import BaseModel, ByteSize

from rover_pipeline.config import Config


def default_yaml() -> str:
    """The default configuration with every option's description as a comment."""
    lines = ["# Defaults of rover_pipeline, generated from its models. Override any of them here or with --config."]
    lines += _commented(Config, Config(), 0)
    return "\n".join(lines) + "\n"


def _commented(model: type[BaseModel], values: BaseModel, depth: int) -> list[str]:
    lines, indent = [], "  " * depth
    for name, field in model.model_fields.items():
        value = getattr(values, name)
        if depth == 0:
            lines.append("")
        lines += [f"{indent}# {line}" for line in _wrapped(field.description or type(value).__doc__ or "")]
        if isinstance(value, BaseModel):
            lines.append(f"{indent}{name}:")
            lines += _commented(type(value), value, depth + 1)
        else:
            plain = value.human_readable() if isinstance(value, ByteSize) else value
            plain = plain[0] if isinstance(plain, list) and len(plain) == 1 else plain
            lines.append(f"{indent}{name}: {json.dumps(plain) if not isinstance(plain, str) else plain}")
    return lines


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), 100)


if __name__ == "__main__":
    print(default_yaml(), end="")
