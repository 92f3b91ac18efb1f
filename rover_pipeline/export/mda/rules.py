"""MDA datasets read back: what they hold, and the rules that readers of the format rely on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rover_pipeline.errors import FormatError
from rover_pipeline.errors import describe as describe_error
from rover_pipeline.export.mda.codec import Item, encode
from rover_pipeline.export.mda.files import read_bytes, read_item
from rover_pipeline.export.mda.revisions import BLOCK, text_of


def describe(folder: Path) -> dict[str, Any]:
    """Figures of a dataset. Raises FormatError when a file is damaged."""
    tags: Counter[str] = Counter()
    revisions: dict[str, int] = {}
    files = payload = 0
    for path in item_paths(folder):
        item = read_item(path)
        files, payload = files + 1, payload + len(item.payload)
        tags.update(item.tags)
        for name, entries in item.groups.items():
            revisions[name] = max(revisions.get(name, 0), len(entries))
    return {"files": files, "payload_bytes": payload, "most_revisions": revisions, "files_of_tag": dict(tags)}


def problems(folder: Path) -> Iterator[str]:
    """One line for each rule that a file breaks."""
    stems: dict[str, Path] = {}
    for path in item_paths(folder):
        try:
            item = read_item(path)
            yield from (f"{path}: {problem}" for problem in _item_problems(item))
            if encode(item) != read_bytes(path):
                yield f"{path}: holds bytes that no reader expects"
        except (FormatError, OSError) as error:
            yield describe_error(error) if str(path) in str(error) else f"{path}: {describe_error(error)}"
        if path.stem in stems:
            yield f"{path}: has the stem of {stems[path.stem]}; what is extracted from both has one name"
        stems[path.stem] = path


def item_paths(folder: Path) -> list[Path]:
    """The MDA files of a dataset, in the order of their paths."""
    return sorted(folder.rglob("*.mda"))


def _item_problems(item: Item) -> Iterator[str]:
    for name, entries in item.groups.items():
        if not entries:
            yield f"group {name} has no revision"
        for revision, entry in enumerate(entries):
            if any(len(block) > BLOCK for _, block in entry.blocks):
                yield f"group {name}, revision {revision}: a block is longer than {BLOCK} bytes"
            if not all(block.isascii() for _, block in entry.blocks):
                yield f"group {name}, revision {revision}: is not ASCII, and readers decode each block on its own"
                continue
            try:
                text_of(entries, revision)
            except ValueError as error:
                yield f"group {name}: {error}"
