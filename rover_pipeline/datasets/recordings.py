"""The recordings that a dataset is made of, and what they are called in it, whoever makes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rover_pipeline.errors import FormatError
from rover_pipeline.format.trace import locate_traces


class Located(NamedTuple):
    """A recording: its directory, and the directory of its results, which is the same without an `output_root`."""

    source: Path
    results: Path


def named_recordings(entries: Sequence[str], output_root: Path | None = None) -> dict[str, Located]:
    """The recordings that entries stand for, by names that follow from their paths, in the order of the names.

    Args:
        entries: traces, directories of traces, or glob patterns.
        output_root: tree of results that belongs to the traces.

    Returns:
        Names of letters, digits, `-` and `_`. Splits depend on them, so an export and a reader of the same entries have
        the same splits.

    Raises:
        FormatError: there are none, or two have the same name.
    """
    base = Path("/-")  # nothing is made there: it shows which part of a path is below the entry
    below = {source: place for place, source in locate_traces(list(entries), Path(), base).items()}
    results = {source: place for place, source in locate_traces(list(entries), Path(), output_root).items()}
    found: dict[str, Located] = {}
    for source, place in below.items():
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", "_".join(place.relative_to(base).parts)).strip("-_") or "recording"
        if name in found:
            raise FormatError(
                f"{source} and {found[name].source}: would both be called {name} in a dataset; rename one"
            )
        found[name] = Located(source, results[source])
    return {name: found[name] for name in sorted(found)}
