"""The only reader of the small text files of a trace: JSON and YAML, with bounds on size, depth and numbers.

A sidecar is written by other programs, or by nobody. Its parser must not need gigabytes of memory, minutes, or the
whole stack because of what it says.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rover_pipeline.errors import FormatError, naming
from rover_pipeline.format.files import read_bounded

#: The largest real sidecar, metadata of a lidar of 128 beams, has 20 kB. A `summary.json` has some hundreds. Schedule.
MAX_TEXT_BYTES = 4 << 20
#: The collector's `config.yaml` has 2 kB. YAML is read twenty times slower than JSON. Schedule.
MAX_YAML_BYTES = 1 << 20
#: Objects and lists within one another. A lidar's metadata has 5. Schedule.
MAX_DEPTH = 32
#: Values of a YAML text after its aliases are filled in, of which each can double the text. Schedule.
MAX_YAML_NODES = 100_000
#: No size, count or time in a sidecar has more than 64 bits; Python would compute with thousands of digits. Layout.
_MAX_INTEGER = 1 << 64
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where PyYAML has libyaml


def read_text(path: Path, limit: int = MAX_TEXT_BYTES) -> str:
    """The text of a small file. Raises FileNotFoundError or NotADirectoryError where there is none, and FormatError
    where it is no regular file, too large, not UTF-8, or cannot be read."""
    try:
        return read_bounded(path, limit, "any text of a trace").decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        raise
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: is not text: byte {error.start} is no UTF-8; replace it") from error
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror or error}") from error


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises as `read_text` and `parse_json` do."""
    return parse_json(read_text(path), str(path))


def read_yaml(path: Path) -> Any:
    """The content of a YAML file. Raises as `read_text` and `parse_yaml` do."""
    return parse_yaml(read_text(path, MAX_YAML_BYTES), str(path))


def section(content: object, *names: str) -> Mapping[str, Any]:
    """A section of what was read from a file, by the names that lead to it; empty where there is none."""
    for name in names:
        content = content.get(name) if isinstance(content, Mapping) else None
    return content if isinstance(content, Mapping) else {}


def parse_json(text: str, path: str) -> Any:
    """The content of a JSON text; `path` is what messages call it. Raises FormatError where it is no JSON, or larger,
    deeper or with larger numbers than any sidecar."""
    _require_size(text, MAX_TEXT_BYTES, path)
    with naming(f"{path}: is not valid JSON", ValueError, RecursionError, limit=100):
        content = json.loads(text)
    _require_plain(content, path)
    return content


def parse_yaml(text: str, path: str) -> Any:
    """The same of a YAML text."""
    _require_size(text, MAX_YAML_BYTES, path)
    # PyYAML raises ValueError for a date like 2024-02-31, TypeError for a key that is a list, and some others.
    kinds = (yaml.YAMLError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError)
    with naming(f"{path}: is no YAML", *kinds, remedy="; correct it", limit=160):
        _require_small(text, path)
        content = yaml.load(text, _Loader)
    _require_plain(content, path)
    return content


def _require_size(text: str, limit: int, path: str) -> None:
    if len(text) > limit:
        raise FormatError(f"{path}: has {len(text):,} characters, more than the {limit:,} of any sidecar; replace it")


def _require_small(text: str, path: str) -> None:
    """Raise FormatError for a YAML text that is too deep, or too large once its aliases are filled in."""
    sizes: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []  # the anchor of each collection that is open, and values in it so far
    total = 0
    for event in yaml.parse(text, _Loader):
        size = 0
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, 1))
            if len(opened) > MAX_DEPTH:
                raise FormatError(f"{path}: is nested more than {MAX_DEPTH} deep; no sidecar is")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = opened.pop()
            sizes |= {anchor: size} if anchor else {}
        elif isinstance(event, yaml.AliasEvent):
            # An anchor that is still open is not known yet: the value would contain itself.
            size = sizes.get(event.anchor or "", MAX_YAML_NODES + 1)
        elif isinstance(event, yaml.ScalarEvent):
            size = 1
            sizes |= {event.anchor: 1} if event.anchor else {}
        total = size
        if opened and size:
            anchor, before = opened[-1]
            opened[-1] = anchor, before + size
            total = before + size
        if total > MAX_YAML_NODES:
            raise FormatError(f"{path}: holds more than {MAX_YAML_NODES:,} values once its aliases are filled in")


def _require_plain(content: Any, path: str) -> None:
    """Raise FormatError for parsed content that is too deep, or has integers of more than 64 bits."""
    level = [content]
    for depth in itertools.count():
        below: list[Any] = []
        for value in level:
            if isinstance(value, (dict, list, tuple, set)):
                if depth >= MAX_DEPTH:
                    raise FormatError(f"{path}: is nested more than {MAX_DEPTH} deep; no sidecar is")
                below += value
                below += value.values() if isinstance(value, dict) else ()
            elif isinstance(value, int) and not -_MAX_INTEGER < value < _MAX_INTEGER:
                raise FormatError(f"{path}: holds an integer of {value.bit_length()} bits; the most is 64")
        if not below:
            return
        level = below


# The `config.yaml` of a recording: a copy of the configuration that the collector used.


def parse_collection(text: str | None, path: str = "config.yaml") -> dict[str, Any]:
    """The sections of a recording's `config.yaml`, sensors by name and `rig`; empty when there is no text (None), or no
    mapping in it, because the format asks only that the file exists. Raises FormatError where the text of the file at
    `path` is not valid YAML, or too large or deep for a configuration."""
    content = parse_yaml(text or "", path)
    return content if isinstance(content, dict) else {}


def read_collection(trace: Path) -> dict[str, Any]:
    """The sections of the recording in the directory `trace`; empty where it has no `config.yaml`. Raises FormatError
    as `read_text` and `parse_collection` do."""
    path = trace / "config.yaml"
    return parse_collection(read_text(path, MAX_YAML_BYTES), str(path)) if path.exists() else {}
