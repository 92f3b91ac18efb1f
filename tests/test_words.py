"""The words of the code and of the manual: the standard terms of the field, as `docs/glossary.md` lists them."""

from __future__ import annotations

import functools
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT

GLOSSARY = CHECKOUT / "docs" / "glossary.md"
#: The heading under which the glossary lists words that are not used.
HEADING = "## Words that we do not use"


def _texts() -> list[Path]:
    """The files that people read: package, rules, profiles, manual, benchmarks."""
    found = [CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "Snakefile")]
    for folder, suffixes in (
        ("rover_pipeline", {".py", ".svg", ".css", ".js", ".html"}), ("rules", {".smk"}), ("profiles", {".yaml"}),
        ("docs", {".md", ".py"}), ("benchmarks", {".py", ".md"}),
    ):  # fmt: skip
        found += [path for path in sorted((CHECKOUT / folder).rglob("*")) if path.suffix in suffixes]
    return [path for path in found if path != GLOSSARY]


@functools.cache
def _banned() -> dict[str, list[re.Pattern[str]]]:
    """Patterns by where they hold: `everywhere`, or in `names` of the code alone."""
    found: dict[str, list[re.Pattern[str]]] = {"everywhere": [], "names": []}
    section = GLOSSARY.read_text().partition(HEADING)[2]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[1] in found:
            found[cells[1]] += [re.compile(_pattern(word.strip())) for word in cells[0].split(",")]
    return found


def _pattern(word: str) -> str:
    """A word with a capital is a name of the code; any other stands alone or between `_`, whatever its case."""
    if word[0].isupper():
        return rf"\b{word}\b"
    return rf"(?i)(?<![a-z]){word.replace('-', '[-_]')}(?![a-z]|_squares)"


@functools.cache
def _kept() -> re.Pattern[str]:
    """Names that stay, by the end of the glossary: of one word where it stands as a name, others anywhere."""
    listed = re.findall(r"`([^`]+)`", GLOSSARY.read_text().partition(HEADING)[2].partition("Some of them stay")[2])
    plain = [name for name in listed if name.isalpha()]
    whole = [re.escape(name) for name in listed if name not in plain]
    places = [form.format(name) for name in plain for form in (r"[\"'`]{}[\"'`]", r"\.{}\b", r"\b{}(?==)", r"/{}\b")]
    return re.compile("|".join([*(rf"\b{name}(?!\w)" for name in whole), *places]))


def _names(text: str) -> Iterator[tuple[int, str]]:
    """Number of the line and name, for each name of a Python text."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


def problems(text: str, is_python: bool = True) -> set[tuple[int, str]]:
    """Number of the line and word, for each word of the text that is not used."""
    banned, text = _banned(), _kept().sub("x", text)
    lines = enumerate(text.splitlines(), 1)
    found = {
        (number, match[0]) for number, line in lines for each in banned["everywhere"] for match in each.finditer(line)
    }
    if is_python:
        found |= {(number, name) for number, name in _names(text) for each in banned["names"] if each.search(name)}
    return found


@pytest.mark.parametrize("path", _texts(), ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_texts_use_the_words_of_the_glossary(path: Path) -> None:
    found = problems(path.read_text(), path.suffix == ".py")
    assert not found, f"see the end of docs/glossary.md: {sorted(found)}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("#: What tells a wall from a person.", {"tells"}),
        ("_FEWEST_POINTS = 3", {"FEWEST"}),
        ("most_points = 3  # at most", {"most_points"}),
        ("from scipy.optimize import least_squares", set()),
        ("folder = 3  # at least a folder", set()),
        ("class Order: ...", {"Order"}),
        ("order = 3", set()),
        ("no_left_out = 3  # it is left out", {"left_out"}),
        ('row["folds"] = file.tell()', set()),
        ("folds them", {"folds"}),
    ],
)
def test_words_that_are_not_used_are_found(text: str, found: set[str]) -> None:
    assert {word for _, word in problems(text)} == found
