"""Lists of names that others wrote: a listed name never becomes a path out of its folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rover_pipeline.cli import main
from rover_pipeline.errors import FormatError, RoverError
from rover_pipeline.export.output import dataset_output
from rover_pipeline.format.files import below, is_plain, plain_names
from rover_pipeline.format.meta import ChannelSpec
from rover_pipeline.format.provenance import MADE_BY, PROVENANCE, files_of
from rover_pipeline.format.virtual import VirtualWriter
from rover_pipeline.table import TABLE
from rover_pipeline.workflow.needs import untrue
from tests.kit import small_trace, snapshot

#: What leads out of a folder, or is no name of a file.
WRONG: list[object] = [
    "",
    ".",
    "..",
    "../x",
    "/etc/passwd",
    "a/b",
    ".../../../x",
    "a\0b",
    "\udc80",
    "a\nb",
    "x" * 256,
    7,
    None,
    ["a"],
]


@pytest.mark.parametrize("name", WRONG, ids=lambda name: ascii(name)[:20])
def test_only_the_name_of_a_file_in_its_folder_is_plain(name: object) -> None:
    assert not is_plain(name)
    assert files_of({"files": ["iq", name, ".options-0"]}) == {"iq", ".options-0"}
    assert plain_names({"iq": name}) == []


def test_a_report_empties_no_file_that_a_forged_provenance_lists(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "all" / "one")
    (tmp_path / "precious").write_text("precious")
    listed = ["../../radar/iq", "../radar/iq", "../../../precious", "../../precious", str(tmp_path / "precious")]
    listed += [".precious", ".options-0", ".options-/../../radar/iq", ".options-0"]
    (trace / "_report").mkdir()
    (trace / "_report" / ".precious").write_text("not listed by any step")
    (trace / "_report" / PROVENANCE).write_text(json.dumps({"made_by": MADE_BY, "files": listed}))
    before = snapshot(trace)
    assert main(["report", str(tmp_path / "all")]) == 0
    assert (tmp_path / "precious").read_text() == "precious"
    after = snapshot(trace)
    assert [name for name in before if not name.startswith("_report") and before[name] != after.get(name)] == []
    assert after["_report/.precious"] == b"not listed by any step", "what no step makes is not removed"
    assert after["_report/.options-0"] == b""


@pytest.mark.parametrize("name", [name for name in WRONG if isinstance(name, str)], ids=lambda name: ascii(name)[:20])
def test_the_writer_refuses_names_that_are_no_names_of_files(name: str, tmp_path: Path) -> None:
    spec = ChannelSpec(format="raw", type="u1", shape=())
    for use in ("stamp", "file", "channel"):
        with (
            pytest.raises(RoverError, match=r"is no name of a file|was not made by"),
            VirtualWriter(tmp_path / "_made", stamps=(name,) if use == "stamp" else ()) as writer,
        ):
            if use == "file":
                writer.add_file(name, b"")
            writer.create({name: spec} if use == "channel" else {}, 1)
            writer.commit({})
    assert os.listdir(tmp_path) == []


def test_a_path_below_a_folder_leads_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    assert below(tmp_path, "inner/name") == tmp_path / "inner" / "name"
    assert below(tmp_path, "./new/name") == tmp_path / "new" / "name"
    for listed in [*WRONG, "inner/../../x", "link/passwd", "./../x", "inner//x", "inner/"]:
        if listed != "a/b":
            with pytest.raises(FormatError, match=r"leads out of it|is a link"):
                below(tmp_path, listed)


def test_an_interrupted_export_of_others_moves_no_file_of_the_recording(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "one")
    before = snapshot(trace)
    left = tmp_path / ".partial" / f"set.1-{'0' * 16}"
    (left / "set").mkdir(parents=True)
    (left / "parts").mkdir()
    (left / "identity").write_text("same")
    (left / "set" / "link").symlink_to(trace / "radar")
    for number, name in enumerate(["link/iq", str(trace / "radar" / "iq"), "../../../one/radar/iq"]):
        (left / "parts" / f"{number}.json").write_text(json.dumps({"key": "a", "files": [name]}))
    with dataset_output(tmp_path / "set", "same") as output:
        assert list(output.folder.rglob("*")) == []
    assert snapshot(trace) == before


def test_an_input_that_is_no_place_in_the_recording_is_not_looked_at(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "one")
    os.mkfifo(tmp_path / "pipe")
    (trace / "_made").mkdir()
    (trace / "_made" / ".options-0").touch()
    for reference in ("../pipe", str(tmp_path / "pipe")):
        content = {
            "made_by": MADE_BY,
            "step": "a",
            "version": 1,
            "inputs": {reference: {"bytes": 1}},
            "time": {"inputs": {reference: [1, 2]}},
        }
        (trace / "_made" / PROVENANCE).write_text(json.dumps(content))
        assert "does not say what it was made from" in untrue(
            trace / "_made" / ".options-0", TABLE["_lidar_image"], trace
        )
