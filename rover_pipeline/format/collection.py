"""The `config.yaml` of a recording: a copy of the configuration that the collector used."""

from __future__ import annotations

from typing import Any

from rover_pipeline.format.texts import parse_yaml


def parse_collection(text: str | None, path: str = "config.yaml") -> dict[str, Any]:
    """The sections of a recording's `config.yaml`: sensors by name, and `rig`.

    Empty when there is no text (None), or no mapping in it, because the format asks only that the file exists.

    Raises:
        FormatError: the text of the file at `path` is not valid YAML, or too large or deep for a configuration.
    """
    content = parse_yaml(text or "", path)
    return content if isinstance(content, dict) else {}
