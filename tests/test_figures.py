"""Measured figures in documents are those of `benchmarks/results.json`, which the benchmarks write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import results
from rover_pipeline.table import TABLE
from tests.conftest import CHECKOUT

BENCHMARKS = CHECKOUT / "benchmarks" / "README.md"
DOCUMENTS = results.documents([CHECKOUT / "README.md", CHECKOUT / "docs", BENCHMARKS])
ROWS = results.load()
ROW = results.Row(
    "0.5", "mm", "20 s of a walk", "simulated", "2026-11-23", "a machine", "abc", "python -m benchmarks.x"
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_documents_have_the_figures_that_were_measured_last(document: Path) -> None:
    text = document.read_text()
    said = "run `python -m benchmarks.results README.md docs benchmarks/README.md`"
    assert results.renewed(text, ROWS) == text, said


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_no_measured_figure_is_typed_by_hand(document: Path) -> None:
    untied = results.untied(document.read_text(), ROWS, all_of_it=document == BENCHMARKS)
    assert not untied, f"quote these from benchmarks/results.json, as benchmarks/README.md says: {untied}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_no_line_begins_with_a_quote_which_would_end_its_paragraph(document: Path) -> None:
    assert not re.search(r"^\s*<!-- (result: |end -->)", document.read_text(), re.MULTILINE)


def test_every_row_says_what_was_measured_when_where_and_how() -> None:
    for key, row in ROWS.items():
        assert all([row.value, row.of, row.machine, row.commit, row.command]), key
        assert row.world in ("simulated", "real") and re.fullmatch(r"20\d\d-\d\d-\d\d", row.date), key


def test_figures_of_a_simulated_world_stand_beside_those_of_real_captures() -> None:
    for name in TABLE:
        text = (CHECKOUT / "docs" / "sensors" / f"{name[1:]}.md").read_text()
        real = [key for key, row in ROWS.items() if row.world == "real" and key.startswith(f"{name[1:]}/")]
        quoted = set(results.quoted(text))
        assert not real or quoted & set(real), f"{name}: its page quotes no figure of a real capture, such as {real[0]}"


def test_a_figure_that_differs_is_renewed_and_one_that_no_row_holds_is_found() -> None:
    rows = {"walk/ATE": ROW, "many/here/now": ROW, "many/there/now": ROW._replace(value="0.7")}
    text = "## Measured error\n\nIn 20 s: <!-- result: walk/ATE -->0.9 mm<!-- end --> RMS, and 1.5 to 3 degrees.\n"
    renewed = results.renewed(text, rows)
    assert "<!-- result: walk/ATE -->0.5 mm<!-- end -->" in renewed
    assert results.untied(renewed, rows) == ["1.5 to 3 degrees"]  # 20 s is what it was measured on
    table = results.renewed("<!-- results table: many -->\n<!-- end of the results table -->\n", rows)
    assert "| | now, mm |" in table and "| there | 0.7 |" in table and "2026-11-23, a machine, commit abc" in table
    with pytest.raises(SystemExit, match="no row 'walk/other'"):
        results.renewed("a <!-- result: walk/other --><!-- end -->", rows)


def test_a_benchmark_writes_its_row_and_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "FILE", tmp_path / "results.json")
    results.save({"walk/ATE": ROW, "ride/ATE": ROW})
    results.record("walk/rotation", "0.02", "degrees", of="20 s of a walk")
    rows = results.load()
    assert list(rows) == ["walk/ATE", "walk/rotation", "ride/ATE"]
    assert rows["ride/ATE"] == ROW and str(rows["walk/rotation"]) == "0.02 degrees"
    assert rows["walk/rotation"].commit and "processors" in rows["walk/rotation"].machine
