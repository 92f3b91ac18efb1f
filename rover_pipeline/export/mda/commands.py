"""The commands `rover-pipeline mda list|versions|extract|update`."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rover_pipeline.draw.formatting import count as counted
from rover_pipeline.errors import ConfigError, FormatError, InTheWayError, did_you_mean, naming, printable
from rover_pipeline.export.mda import files
from rover_pipeline.export.mda.files import read_bytes
from rover_pipeline.export.output import new_output
from rover_pipeline.format.attempt import remove_left

#: Suffixes of payloads by the bytes that they begin with, and by their type.
_MAGIC = {b"\xff\xd8\xff": ".jpg", b"\x89PNG": ".png", b"RIFF": ".wav"}
_SUFFIXES = {"Text": ".txt", "Image": ".png", "Video": ".mp4", "Audio": ".wav"}


def main(arguments: Sequence[str]) -> int:
    """Run one of the commands. Raises RoverError for a file, group or revision that is not there, is damaged, or would
    be overwritten."""
    parsed = _parser().parse_args(arguments)
    return int(parsed.run(parsed))


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="rover-pipeline mda", description="Annotations of MDA files, and their revisions.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    listed = commands.add_parser("list", help="what is in files: payload, tags, metadata, groups of annotations")
    listed.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="MDA files, or folders of them")
    listed.add_argument("--json", action="store_true", help="for programs")
    listed.set_defaults(run=_list)

    versions = commands.add_parser("versions", help="the revisions of a file's annotations, or how two of them differ")
    versions.add_argument("path", type=Path, metavar="FILE")
    versions.add_argument("--group", metavar="NAME", help="only this one (default: all)")
    versions.add_argument("--compare", nargs=2, type=int, metavar=("OLD", "NEW"), help="-1 = the latest")
    versions.add_argument("--json", action="store_true", help="for programs")
    versions.set_defaults(run=_versions)

    extract = commands.add_parser("extract", help="write the payload and the annotations of files to a folder")
    extract.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="MDA files, or folders of them")
    extract.add_argument("-o", "--out", type=Path, required=True, metavar="DIR")
    extract.add_argument("--group", metavar="NAME", help="only this one (default: all)")
    extract.add_argument("--rev", type=int, default=-1, metavar="N", help="revision from 0 on (default: the latest)")
    extract.add_argument("--no-payload", action="store_true", help="annotations only")
    extract.set_defaults(run=_extract)

    update = commands.add_parser("update", help="add a revision to an annotation")
    update.add_argument("path", type=Path, metavar="FILE")
    update.add_argument("text", type=Path, metavar="TEXT", help="a file that holds the new annotation; - = stdin")
    update.add_argument("--group", required=True, metavar="NAME")
    update.add_argument("--create", action="store_true", help="the group is a new one")
    update.set_defaults(run=_update)
    return parser


def _list(arguments: Namespace) -> int:
    found: dict[str, dict[str, Any]] = {}
    for path in _files(arguments.paths):
        item = files.read_item(path)
        found[str(path)] = {
            "type": item.data_type,
            "payload_bytes": len(item.payload),
            "tags": list(item.tags),
            "metadata": item.metadata,
            "revisions": {name: len(entries) for name, entries in item.groups.items()},
        }
    if arguments.json:
        print(json.dumps(found, indent=2))
        return 0
    for name, each in found.items():
        groups = ", ".join(f"{name} ({counted(its, 'revision')})" for name, its in each["revisions"].items()) or "none"
        head = f"{name}: {each['type']}, {each['payload_bytes']:,} bytes\n  tags: {', '.join(each['tags'])}"
        print(printable(f"{head}\n  metadata: {each['metadata']}\n  groups: {groups}"))
    return 0


def _versions(arguments: Namespace) -> int:
    item = files.read_item(arguments.path)
    names = _groups(arguments.path, item, arguments.group)
    if arguments.compare:
        for name in names:
            with naming(f"{arguments.path}: group {name}", LookupError, ValueError):
                lines = files.difference(item.groups[name], *arguments.compare)
            print(printable("\n".join([f"{name}:", *lines] if lines else [f"{name}: the same"])))
        return 0
    _, spans = files.encode(item)
    rows = {
        name: [
            {
                "revision": revision,
                "offset": offset,
                "length": length,
                "snapshot": revision % files.SNAPSHOT_PERIOD == 0,
                "new_blocks": len(item.groups[name][revision].blocks),
            }
            for revision, (offset, length) in enumerate(spans[name])
        ]
        for name in names
    }
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return 0
    for name, revisions in rows.items():
        for row in revisions:
            snapshot = ", snapshot" if row["snapshot"] else ""
            described = f"{row['length']} bytes at {row['offset']}, {row['new_blocks']} blocks{snapshot}"
            print(printable(f"{name} {row['revision']}: {described}"))
    return 0


def _extract(arguments: Namespace) -> int:
    paths = _files(arguments.paths)
    targets: set[Path] = set()
    for path in paths:
        item = files.read_item(path)
        contents = {} if arguments.no_payload else {path.stem + _suffix(item): item.payload}
        for name in _groups(path, item, arguments.group):
            with naming(f"{path}: group {name}", LookupError, ValueError):
                text = files.text_of(item.groups[name], arguments.rev)
            # What a file says is never taken for a path. The reference program ends the text with a line feed, too.
            plain = "".join(each if each.isalnum() or each in "-_" else "_" for each in name)[:100] or "_"
            contents[f"{path.stem}.{plain}.txt"] = f"{text}\n".encode()
        for target, content in contents.items():
            place = arguments.out / target
            there = os.path.lexists(place)
            # An interrupted command has written some of them.
            if place in targets or (there and (place.is_symlink() or read_bytes(place) != content)):
                raise InTheWayError(f"{place}: already exists; remove it or choose another folder")
            targets.add(place)
            remove_left(place)
            if not there:
                with new_output(place) as scratch:
                    scratch.write_bytes(content)
    print(f"{arguments.out}: {counted(len(targets), 'file')}")
    return 0


def _update(arguments: Namespace) -> int:
    text = sys.stdin.read() if str(arguments.text) == "-" else read_bytes(arguments.text).decode("utf-8", "replace")
    # `extract` ends it with a line feed that is no part of it.
    text = text.removesuffix("\n")
    item = files.read_item(arguments.path)
    if arguments.group not in item.groups and not arguments.create:
        raise ConfigError(
            f"{arguments.path}: has no group {arguments.group}; {did_you_mean(arguments.group, item.groups)}, or give "
            "--create for a new one"
        )
    before = len(item.groups.get(arguments.group, ()))
    after = files.add_revision(arguments.path, arguments.group, text)
    said = f"revision {after - 1}" if after > before else f"is revision {after - 1} already"
    print(f"{arguments.path}: {arguments.group}: {said}")
    return 0


def _groups(path: Path, item: files.Item, name: str | None) -> list[str]:
    """Names of all groups, or of the one asked for."""
    if name is None:
        return list(item.groups)
    if name not in item.groups:
        raise ConfigError(f"{path}: has no group {name}; {did_you_mean(name, item.groups)}")
    return [name]


def _files(paths: Sequence[Path]) -> list[Path]:
    """MDA files, and those in folders."""
    found = []
    for path in paths:
        inside = files.item_paths(path) if path.is_dir() else [path]
        if not inside:
            raise FormatError(f"{path}: holds no MDA file")
        found += inside
    return found


def _suffix(item: files.Item) -> str:
    """Suffix of the payload's file. The reference program always takes that of the type."""
    for magic, suffix in _MAGIC.items():
        if item.payload.startswith(magic) and item.data_type != "Text":
            return suffix
    return _SUFFIXES[item.data_type]
