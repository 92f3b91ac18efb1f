"""What a recording says about itself: its `config.yaml`, a copy of the configuration that it was collected with."""

from __future__ import annotations

from typing import Any

import yaml

from rover_pipeline.errors import FormatError


def parse_collection(text: str | None, place: str = "config.yaml") -> dict[str, Any]:
    """The sections of a recording's `config.yaml`: sensors by name, and `rig`.

    Args:
        text: of the file; None when there is none.
        place: of the file, for messages.

    Returns:
        What it holds; empty when that is nothing, or no mapping: only its existence is asked for by the format.

    Raises:
        FormatError: it is no YAML.
    """
    try:
        content = yaml.safe_load(text or "")
    # A date that there is none of is a ValueError, brackets by the thousand are a RecursionError.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise FormatError(f"{place}: is no YAML: {error}; correct it") from error
    return content if isinstance(content, dict) else {}
