"""What an export writes becomes visible only when it is complete, and never replaces what others have made.

An export of hours must survive a kill. So a dataset is made in parts, such as a minute of one recording. When a part is
finished and on the disk, a list of its files is written. The next attempt to make the same dataset, of the same inputs,
options and versions, moves the files of finished parts to its own scratch folder and makes the others only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rover_pipeline.errors import FormatError, InTheWayError, named_if_not_written
from rover_pipeline.format.attempt import Attempt, open_regular, remove_tree, scratch, switch
from rover_pipeline.format.channels.base import sync_file, sync_new_name
from rover_pipeline.format.files import STAMP, below, make_folders, opened_file, replace_file
from rover_pipeline.format.provenance import MADE_BY, PROVENANCE, read_provenance
from rover_pipeline.format.texts import read_json, read_text

#: File of a scratch folder from which the next attempt continues.
IDENTITY = "identity"
_PARTS = "parts"


@contextmanager
def new_output(path: Path) -> Iterator[Path]:
    """A scratch path to build a new file or directory at. It becomes `path` when the block ends without an error.
    Raises InTheWayError where `path` exists, or another process is making it."""
    path = path.absolute()
    with scratch(path) as folder:
        output = folder / path.name
        with named_if_not_written(path):
            yield output
            _sync_tree(output)
        _give_name(output, path, "already exists; remove it or choose another name")
        sync_new_name(path)


def _give_name(source: Path, target: Path, problem: str) -> None:
    """Give a new file or folder its final name. Raises InTheWayError with the `problem` where that was taken meanwhile.

    A hard link to a file, and a rename of a folder, fail when the name is taken.
    """
    try:
        if source.is_dir():
            os.rename(source, target)
        else:
            os.link(source, target)
    except OSError as error:
        if os.path.lexists(target):
            raise InTheWayError(f"{target}: {problem}") from error
        os.rename(source, target)  # the file system has no hard links


class DatasetOutput:
    """A dataset that is being made. `folder` is where its files go; it exists."""

    def __init__(self, scratch: Path, name: str) -> None:
        self.folder = scratch / name
        self._parts = scratch / _PARTS

    def part(self, key: str, make: Callable[[], Iterable[Path]]) -> bool:
        """Make a part, unless an interrupted attempt has made it already. Returns whether it was made now.

        Args:
            key: says which part, in this format's own words. The same key always stands for the same files.
            make: writes the files of the part below `folder` and gives their paths.
        """
        marker = self._parts / f"{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}.json"
        if marker.exists():
            return False
        files = list(make())
        _sync(files)
        listed = [path.relative_to(self.folder).as_posix() for path in files]
        replace_file(marker, json.dumps({"key": key, "files": listed}))
        return True

    def adopt(self, left: Path) -> int:
        """Move the finished parts of an interrupted attempt here. Returns their number."""
        count = 0
        for marker in sorted((left / _PARTS).glob("*.json")):
            with contextlib.suppress(FormatError, OSError, KeyError, TypeError):
                names = list(read_json(marker)["files"])
                # A kill during an earlier move may have left some of them here and some there.
                moved = {below(left / self.folder.name, name): below(self.folder, name) for name in names}
                if not all(source.is_file() for source in moved):
                    continue
                for source, target in moved.items():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    os.rename(source, target)
                os.rename(marker, self._parts / marker.name)
                count += 1
        return count


@contextmanager
def dataset_output(path: Path, identity: str) -> Iterator[DatasetOutput]:
    """A scratch folder for the dataset at `path`. Publish it inside of the block, by `publish` or `merge`. Raises
    InTheWayError where another process is making it. `identity`: digest of all that decides the bytes of the dataset;
    finished parts of attempts with it are used."""
    attempt = Attempt(path, wait=False)
    left: list[Path] = []

    def keep_same(folder: Path) -> None:
        with contextlib.suppress(FormatError, OSError):
            if not folder.is_symlink() and read_text(folder / IDENTITY) == identity:
                left.append(folder)
                return
        remove_tree(folder)

    attempt.begin(keep_same)
    interrupted = False
    try:
        with named_if_not_written(path):
            output = DatasetOutput(attempt.folder, path.name)
            output.folder.mkdir()
            (attempt.folder / _PARTS).mkdir()
            (attempt.folder / IDENTITY).write_text(identity, encoding="utf-8")
            adopted = sum(output.adopt(folder) for folder in left)
            if adopted:
                print(f"{path}: continues an interrupted export; {adopted} of its parts are finished", file=sys.stderr)
            for folder in left:
                remove_tree(folder)
            yield output
    except KeyboardInterrupt:
        interrupted = True  # the same command again continues
        raise
    finally:
        if not interrupted:
            remove_tree(attempt.folder)
        attempt.end()


def publish(output: DatasetOutput, path: Path, provenance: dict[str, Any], stamp: str | None) -> None:
    """Give the finished dataset its name, in exchange for an older one of ours, which `older_dataset` looked at."""
    content = {"made_by": MADE_BY, **provenance, "files": tree_state(output.folder)}
    _complete(output.folder, output.folder, content, stamp)
    names = os.listdir(path) if path.is_dir() else []
    try:
        switch(output.folder, path, names, PROVENANCE, ())
    except OSError as error:
        if os.path.lexists(path) and not path.is_dir():
            raise InTheWayError(f"{path}: appeared while the dataset was made; remove it or choose another") from error
        raise
    sync_new_name(path)


def merge(
    output: DatasetOutput, path: Path, provenance: dict[str, Any], stamp: str | None, *, replace: bool = False
) -> None:
    """Put the files of a finished dataset into a folder that may hold others, and never over one of these.

    Files that are there with the same bytes were put there by an earlier attempt. A kill leaves some of the files, each
    of them whole, and the same command again adds the others. The provenance goes last, to `.FORMAT/provenance.json`.
    Where there is no such folder yet, it gets its name when it is whole. With `replace`, files of an earlier export of
    ours, which nobody has changed since, give way.

    Raises InTheWayError, and has added nothing, where there are other bytes, or something else, at the path of a file.
    """
    own = merged_provenance(path, provenance["format"])
    earlier = read_provenance(own) if own.is_dir() else None
    if os.path.lexists(own) and earlier is None and not (own.is_dir() and not os.listdir(own)):
        raise InTheWayError(f"{own}: stands where the provenance belongs and was not made by {MADE_BY}; move it away")
    ours = (earlier or {}).get("digests")
    ours = ours if isinstance(ours, dict) and replace else {}
    listed = sorted(tree_files(output.folder))
    _sync(output.folder / name for name in listed)
    digests = {name: _file_digest(output.folder / name) for name in listed}
    content = {"made_by": MADE_BY, **provenance, "digests": digests}
    if not os.path.lexists(path):
        own = merged_provenance(output.folder, provenance["format"])
        own.mkdir()
        _complete(output.folder, own, content, stamp)
        os.rename(output.folder, path)
        sync_new_name(path)
        return
    changed = []
    for name in (f"{own.name}/{PROVENANCE}", *listed):
        target = below(path, name)
        if name in digests and os.path.lexists(target):
            there = _file_digest(target) if target.is_file() and not target.is_symlink() else ""
            if there == digests[name]:
                continue
            if not there or there != ours.get(name):
                raise InTheWayError(
                    f"{target}: exists already with other content, and is not replaced; move it away, or export to "
                    "another folder"
                )
        changed += [name] if name in digests else []
    for name in changed:
        target = below(path, name)  # a link may have come since
        make_folders(target.parent)
        if name in ours:
            os.replace(output.folder / name, target)
        else:
            _give_name(output.folder / name, target, "appeared while the dataset was made; move it away")
    _sync({below(path, name).parent for name in changed})  # before the provenance lists them
    make_folders(own)
    write_provenance(below(path, f"{own.name}/{PROVENANCE}"), content, output.folder.parent)
    leave_stamp(path, stamp)


def _complete(made: Path, own: Path, provenance: dict[str, Any], stamp: str | None) -> None:
    """Finish a folder that has no name yet: with its provenance in the folder `own`, its stamp, and all on the disk."""
    (own / PROVENANCE).write_text(json.dumps(provenance, indent=2) + "\n", encoding="utf-8")
    if stamp:
        (made / stamp).touch()
    _sync_tree(made)


def write_provenance(path: Path, content: dict[str, Any], scratch: Path) -> None:
    """Write the provenance of a dataset that has its name already; see `replace_whole`."""
    replace_whole(path, (json.dumps(content, indent=2) + "\n").encode(), scratch)


def replace_whole(path: Path, data: bytes, scratch: Path) -> None:
    """Write a file, or replace one with the same permissions. It is built in a scratch folder of the same disk."""
    made = scratch / path.name
    made.write_bytes(data)
    if path.exists():
        os.chmod(made, path.stat().st_mode & 0o777)
    sync_file(made)
    os.replace(made, path)
    sync_new_name(path)


def merged_provenance(folder: Path, format: str) -> Path:
    """Where the provenance of a merged format is: hidden, because `_NAME` would be taken for a result of a step."""
    return folder / f".{format}"


def _file_digest(path: Path) -> str:
    with opened_file(path) as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def leave_stamp(folder: Path, stamp: str | None) -> None:
    """Put the stamp into a dataset; what is at its path must be an empty file of ours, and no link."""
    if stamp:
        os.close(open_regular(folder / stamp))


def older_dataset(path: Path, format: str, *, identity: str, replace: bool) -> str:
    """What is at the path of a dataset: "" = nothing, "same" = this very one, "older" = one that may be replaced.
    Raises InTheWayError for what this program did not make, or that was changed afterwards; and for an export of other
    inputs or options, where it is not to be replaced."""
    is_folder = path.is_dir() and not path.is_symlink()
    if not os.path.lexists(path) or (is_folder and not any(files for *_, files in os.walk(path))):
        return ""
    provenance = read_provenance(path) if path.is_dir() else None
    if provenance is None or provenance.get("format") != format:
        raise InTheWayError(f"{path}: already exists and is no {format} dataset of ours; remove it or choose another")
    if tree_state(path) not in known_states(provenance):
        raise InTheWayError(
            f"{path}: already exists, and files in it were added, changed or removed since it was made; move it away"
        )
    if provenance.get("identity") == identity:
        return "same"
    if not replace:
        raise InTheWayError(
            f"{path}: already exists, exported from other inputs or with other options; remove it, choose another "
            "name, or give --replace"
        )
    return "older"


def tree_files(folder: Path) -> dict[str, int]:
    """Paths below a dataset's folder, with `/` -> bytes, without its provenance and stamps."""
    paths = (os.path.join(place, name) for place, _, names in os.walk(folder) for name in names)
    sizes = {path.removeprefix(f"{folder}/"): os.lstat(path).st_size for path in paths}
    return {name: size for name, size in sizes.items() if name != PROVENANCE and not name.startswith(STAMP)}


def known_states(provenance: dict[str, Any]) -> list[Any]:
    """The states that a dataset of ours is in while nobody else has changed it: two where an update was interrupted."""
    return [provenance[key] for key in ("files", "updated_from") if key in provenance]


def tree_state(folder: Path, changed: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Number and bytes of the files of a dataset, `changed` ones with new sizes, and a digest of paths and sizes."""
    files = tree_files(folder) | dict(changed or {})
    digest = hashlib.blake2b(json.dumps(sorted(files.items())).encode(), digest_size=16).hexdigest()
    return {"count": len(files), "bytes": sum(files.values()), "blake2b": digest}


def _sync(paths: Iterable[Path]) -> None:
    with ThreadPoolExecutor(8) as pool:  # disks are faster with several requests at once
        list(pool.map(sync_file, paths))


def _sync_tree(made: Path) -> None:
    """Wait until a file, or a folder with all that is in it, is on the disk."""
    _sync([*(Path(place, name) for place, folders, files in os.walk(made) for name in (*folders, *files)), made])
