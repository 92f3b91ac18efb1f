"""MDA files on the disk: read, revised, and checked by the rules that readers of the format rely on."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rover_pipeline.errors import FormatError, named_if_not_written
from rover_pipeline.export.contents import Content
from rover_pipeline.export.dataset_output import IDENTITY, known_states, tree_state
from rover_pipeline.export.layout import File, Files, Layout
from rover_pipeline.export.mda.codec import BLOCK, Item, append, decode, encode, text_of
from rover_pipeline.format.attempt import remove_tree, scratch
from rover_pipeline.format.channels.base import sync_file, sync_new_name
from rover_pipeline.format.files import exists, read_bounded
from rover_pipeline.format.provenance import PROVENANCE, read_provenance

#: A video of an hour has some gigabytes. A file is read as a whole, as its format demands. Schedule.
_MAX_BYTES = 4 << 30


def read_item(path: Path) -> Item:
    """The content of an MDA file.

    Raises:
        FormatError: it is none, or it is damaged.
        OSError: it cannot be opened.
    """
    try:
        return decode(read_bytes(path))
    except ValueError as error:
        raise FormatError(f"{path}: is no MDA file, or is damaged: {error}") from error


def read_bytes(path: Path) -> bytes:
    """The bytes of an MDA file. Raises FormatError when it is too large or no regular file."""
    return read_bounded(path, _MAX_BYTES, "an MDA file")


def add_revision(path: Path, group: str, text: str) -> int:
    """Add a revision to a group of a file, unless its latest one has this text already.

    Whatever fails, the older or the newer content is there as a whole. Two calls for one file, or a call and an export
    of the dataset that the file is in, wait for one another.

    Returns:
        The number of revisions of the group.

    Raises:
        FormatError: the file is damaged, or the text is not ASCII.
        RoverError: it cannot be written.
    """
    path = path.absolute()
    dataset = _dataset_of(path)
    with scratch(dataset or path, _remove_unfinished, wait=True) as folder:
        item = read_item(path)
        try:
            entries = append(item.groups.get(group, ()), text)
        except ValueError as error:
            raise FormatError(f"{path}: group {group}: {error}") from error
        with named_if_not_written(path):
            if entries != item.groups.get(group):
                data = encode(replace(item, groups={**item.groups, group: entries}))
                _announce(dataset, path, len(data), folder)
                _replace(path, data, folder / path.name)
            _settle(dataset, folder)
        return len(entries)


def _remove_unfinished(folder: Path) -> None:
    """Remove what a killed update has left. An interrupted export continues from what it has left."""
    if not exists(folder / IDENTITY):
        remove_tree(folder)


def _dataset_of(path: Path) -> Path | None:
    """The dataset of ours that a file is in; None when it is in none."""
    for folder in path.parents:
        if (read_provenance(folder) or {}).get("format") == "mda":
            return folder
    return None


def _announce(dataset: Path | None, path: Path, size: int, scratch: Path) -> None:
    """Let the provenance of a dataset know of both states of one of its files, before that gets its new `size`.

    So the next update goes on wherever this one is interrupted. Where the files are others than it knew, it stays.
    """
    provenance: dict[str, Any] = (read_provenance(dataset) or {}) if dataset else {}
    if dataset is None or (before := tree_state(dataset)) not in known_states(provenance):
        return
    provenance.pop("updated_from", None)
    after = tree_state(dataset, {path.relative_to(dataset).as_posix(): size})
    _write_provenance(dataset, {**provenance, "files": after, "updated_from": before}, scratch)


def _settle(dataset: Path | None, scratch: Path) -> None:
    """Let the provenance forget the older state: the file has its new content, from this update or a killed one."""
    provenance: dict[str, Any] = (read_provenance(dataset) or {}) if dataset else {}
    if dataset and "updated_from" in provenance and tree_state(dataset) == provenance.get("files"):
        del provenance["updated_from"]
        _write_provenance(dataset, provenance, scratch)


def _write_provenance(dataset: Path, content: dict[str, Any], scratch: Path) -> None:
    _replace(dataset / PROVENANCE, (json.dumps(content, indent=2) + "\n").encode(), scratch / PROVENANCE)


def _replace(path: Path, data: bytes, scratch: Path) -> None:
    """Replace a file by one that is built at another path of the same file system."""
    scratch.write_bytes(data)
    if path.exists():
        os.chmod(scratch, path.stat().st_mode & 0o777)
    sync_file(scratch)
    os.replace(scratch, path)
    sync_new_name(path)


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


def relations(folder: Path, found: Files) -> Iterator[str]:
    """Broken rules of each file, and files that are called alike."""
    stems: dict[str, Path] = {}
    for each in found["items"]:
        yield from (f"{each.path}: {problem}" for problem in each.kept or ())
        if each.path.stem in stems:
            yield f"{each.path}: has the stem of {stems[each.path.stem]}; what is extracted from both has one name"
        stems[each.path.stem] = each.path


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


class _Mda(Content):
    """An MDA file."""

    def encode(self, value: Item) -> bytes:
        return encode(value)

    def read(self, path: Path) -> Item:
        item = read_item(path)
        if encode(item) != read_bytes(path):
            raise ValueError("holds bytes that no reader expects")
        return item


LAYOUT = Layout(items=File("{recording}/{item}.mda", _Mda(), keep=lambda item: list(_item_problems(item))))
