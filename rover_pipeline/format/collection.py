"""The `config.yaml` of a recording: a copy of the configuration that the collector used."""

from __future__ import annotations

from typing import Any

import yaml

from rover_pipeline.errors import FormatError


def parse_collection(text: str | None, path: str = "config.yaml") -> dict[str, Any]:
    """The sections of a recording's `config.yaml`: sensors by name, and `rig`.

    Empty when there is no text (None), or no mapping in it, because the format asks only that the file exists.

    Raises:
        FormatError: the text of the file at `path` is not valid YAML.
    """
    try:
        content = yaml.safe_load(text or "")
    # PyYAML raises ValueError for a date like 2024-02-31, and RecursionError for thousands of nested brackets.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise FormatError(f"{path}: is no YAML: {error}; correct it") from error
    return content if isinstance(content, dict) else {}
