"""The contents that layouts are made of: what is written is read back, and what is damaged is named."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rover_pipeline.export.contents import Arrays, Content, Json, Lines, Numbers, Records, Table
from rover_pipeline.export.layout import File, Layout
from rover_pipeline.export.pictures import Cloud, Pcd, Picture

RNG = np.random.default_rng(0)
XYZ = RNG.normal(size=(5, 3)).astype("f4")
CONTENTS: dict[str, tuple[Content, Any]] = {
    "records": (Records(("xyz", "<f4", (3,)), ("ring", "u1")), {"xyz": XYZ, "ring": np.arange(5)}),
    "numbers": (Numbers(3, "%.9e"), XYZ),
    "table": (Table({"number": "d", "x": ".9f"}), {"number": np.arange(5), "x": XYZ[:, 0]}),
    "arrays": (Arrays(t=("f", "time"), xyz=("f", "time", 3)), {"t": np.arange(5.0), "xyz": XYZ}),
    "pcd": (Pcd("x", "y", "z"), dict(zip("xyz", XYZ.T, strict=True))),
    "json": (Json("a", indent=None), {"a": [1, 2.5], "b": "ü"}),
    "lines": (Lines(), ["one", "two"]),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_what_is_written_is_read_back(name: str) -> None:
    content, value = CONTENTS[name]
    found = content.decode(content.encode(value))
    if not isinstance(value, dict) or name == "json":
        assert np.allclose(found, value) if name == "numbers" else found == value
        return
    for key, column in value.items():
        assert np.allclose(found[key], column, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("records", b"123", "has 3 bytes, which is no multiple of the 13 of a row"),
        ("records", struct.pack("<3fB", 1, float("nan"), 2, 0), "values of xyz that are not finite"),
        ("numbers", b"1 2\n", "must hold 3 finite numbers in each line"),
        ("numbers", b"1 2 nan\n", "must hold 3 finite numbers"),
        ("numbers", b"1 2 x\n", "must hold 3 finite numbers"),
        ("table", b"number,y\n1,2\n", "has no column x"),
        ("table", b"number,x\n1,2\n1.5,2\n", "line 3 holds no number in the column number"),
        ("table", b"number,x\n1\n", "line 2 holds no number in the column x"),
        ("arrays", b"PK", "is no npz of arrays"),
        ("arrays", Arrays().encode({"t": np.zeros(3)}), "has no array xyz"),
        ("arrays", Arrays().encode({"t": np.zeros(3), "xyz": np.zeros((4, 3))}), "xyz must be f ['time', 3]"),
        ("arrays", Arrays().encode({"t": np.zeros(3), "xyz": np.zeros(3)}), "xyz must be f ['time', 3]"),
        ("arrays", Arrays().encode({"t": np.zeros(3, "i8"), "xyz": np.zeros((3, 3))}), "t must be f"),
        (
            "arrays",
            Arrays().encode({"t": np.zeros(3), "xyz": np.full((3, 3), np.inf)}),
            "xyz holds values that are not",
        ),
        ("pcd", b"FIELDS x\n", "is no binary PCD of f4 fields"),
        ("pcd", Pcd().encode({"x": XYZ[:, 0], "z": XYZ[:, 1]}), "its fields are x z, must begin with x y z"),
        ("json", b"{", "is not valid JSON"),
        ("json", b"[]", "is no JSON object"),
        ("json", b"{}", "has no a"),
    ],
)
def test_what_is_damaged_is_named(name: str, data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        CONTENTS[name][0].decode(data)


def test_a_layout_finds_the_files_that_it_names_and_says_which_rules_they_break(tmp_path: Path) -> None:
    layout = Layout(
        rows=File(
            "[{recording}/]rows/{number:03d}.bin",
            Records(("x", "<f4")),
            {"row {line}: x must not be negative": lambda rows: rows["x"] >= 0, "has no y": lambda rows: rows["y"] > 0},
        ),
        lists=File("{dataset}.txt", Lines(), keep=len),
        more=File("{recording}/{recording}.json", Json(), optional=True, keep=lambda content: content["a"]),
    )
    for keys in ({"recording": None, "number": 7}, {"recording": "walk", "number": 12}):
        path = layout.path(tmp_path, "rows", **keys)
        path.parent.mkdir(parents=True)
        path.write_bytes(layout["rows"].content.encode({"x": np.array([1.0, -1.0])}))
    (tmp_path / "walk" / "walk.json").write_text("{}")
    (tmp_path / "walk" / "other.json").write_text("{}")
    found = layout.find(tmp_path)
    assert [each.keys for each in found["rows"]] == [
        {"recording": None, "number": "007"},
        {"recording": "walk", "number": "012"},
    ]
    assert [each.path.name for each in found["more"]] == ["walk.json"]
    assert layout.counts(tmp_path) == {"files": {"rows": 2, "more": 1}}
    problems = list(layout.problems(tmp_path, lambda folder, found: (str(each.kept) for each in found["more"])))
    first, second = (str(each.path) for each in found["rows"])
    assert problems == [
        *(f"{path}: {text}" for path in (first, second) for text in (
            "row 2: x must not be negative; export it again", "has no y; export it again",
        )),
        f"{tmp_path}: has no {tmp_path.name}.txt; export it again",
        "None; export it again",
    ]  # fmt: skip


def test_a_cloud_is_read_back_and_a_picture_that_claims_gigabytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ply").write_bytes(Cloud().encode((XYZ, "a comment", {"red": np.arange(5, dtype="u1")})))
    xyz, fields = Cloud().read(tmp_path / "a.ply")
    assert np.array_equal(xyz, XYZ) and fields["red"].tolist() == [0, 1, 2, 3, 4]
    header = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", 60_000, 60_000, 8, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="it claims 60000x60000 pixels"):
        Picture().decode(header + bytes(200))
    with pytest.raises(ValueError, match="is no picture"):
        Picture().decode(b"")
