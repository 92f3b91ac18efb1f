"""`meta.json` is read strictly and written with the keys that the published reader accepts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rover_pipeline.errors import FormatError
from rover_pipeline.format.files import replace_file
from rover_pipeline.format.meta import META, ChannelSpec, read_meta, spec_for, write_meta

IQ: dict[str, Any] = {"format": "raw", "type": "i2", "shape": [64, 3, 4, 512]}


def meta(folder: Path, content: object) -> Path:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / META).write_bytes(text)
    return folder


def test_the_meta_json_of_the_collector_is_read(tmp_path: Path) -> None:
    content = {
        "ts": {"format": "raw", "type": "f8", "shape": [], "description": "Timestamp; epoch seconds."},
        "iq": {**IQ, "desc": "Radar IIQQ data."},
        "video.avi": {"format": "mjpg", "type": "u1", "shape": [1080, 1920, 3], "args": {"resolution": [8, 8]}},
    }
    specs = read_meta(meta(tmp_path, content))
    assert list(specs) == ["ts", "iq", "video.avi"]
    assert specs["iq"].sample_bytes == 64 * 3 * 4 * 512 * 2 and specs["ts"].sample_bytes == 8
    assert specs["ts"].description == "Timestamp; epoch seconds." and specs["iq"].desc == "Radar IIQQ data."
    assert specs["video.avi"].args == {"resolution": [8, 8]}


def test_a_new_sensor_without_channels_is_read(tmp_path: Path) -> None:
    assert read_meta(meta(tmp_path, {})) == {}


def test_a_written_description_is_read_back_and_has_only_keys_of_the_published_reader(tmp_path: Path) -> None:
    specs = {
        "ts": ChannelSpec(format="raw", type="f8", shape=(), desc="s"),
        "depth": ChannelSpec(format="npz", type="u2", shape=(4, 5), args={"compress": True}),
    }
    write_meta(tmp_path, specs)
    assert read_meta(tmp_path) == specs
    keys = {key for entry in json.loads((tmp_path / META).read_text()).values() for key in entry}
    assert keys <= {"format", "type", "shape", "desc", "args"}
    assert [entry.name for entry in tmp_path.iterdir()] == [META]


def test_data_is_little_endian_on_every_machine(tmp_path: Path) -> None:
    assert read_meta(meta(tmp_path, {"iq": IQ}))["iq"].dtype.str == "<i2"


def test_a_description_has_the_type_and_shape_of_its_array() -> None:
    spec = spec_for(np.zeros((7, 3, 2), "c8"), "Spectrum. [a, b]", "lzmaf")
    assert (spec.format, spec.type, spec.shape, spec.args) == ("lzmaf", "c8", (3, 2), None)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not valid JSON"),
        (b'{"iq": {"format": "raw"', "is not valid JSON"),
        (b"\xff\xfe\x00", "is not text: byte 0 is no UTF-8"),
        (b"[" * 100_000, "is not valid JSON"),
        ([], "must hold a JSON object, holds a list"),
        (None, "must hold a JSON object, holds a NoneType"),
        ({"iq": 3}, "channel 'iq' must be an object, is a int"),
        ({"iq": {**IQ, "format": "lzmf"}}, "channel 'iq' has unknown format 'lzmf'; did you mean 'lzmaf'?"),
        ({"iq": {**IQ, "format": None}}, "channel 'iq' has unknown format None; known: "),
        ({"iq": {**IQ, "format": ["raw"]}}, "channel 'iq' has unknown format"),
        ({"iq": {"format": "raw", "type": "i2"}}, "channel 'iq': shape: Field required"),
        ({"iq": {**IQ, "type": "i3"}}, "channel 'iq': type: unknown type; known: u1, .* (got 'i3')"),
        ({"iq": {**IQ, "type": ">i2"}}, "channel 'iq': type: unknown type"),
        ({"iq": {**IQ, "type": "O"}}, "channel 'iq': type: unknown type"),
        ({"iq": {**IQ, "shape": [64, -3]}}, "channel 'iq': shape: every size must be at least 1"),
        ({"iq": {**IQ, "shape": [0]}}, "channel 'iq': shape: every size must be at least 1"),
        ({"iq": {**IQ, "shape": "64"}}, "channel 'iq': shape: .*tuple"),
        ({"iq": {**IQ, "shape": [1.5]}}, r"channel 'iq': shape.0: .*integer"),
        ({"iq": {**IQ, "shape": [1] * 100}}, r"channel 'iq': shape: .*axes"),
        ({"iq": {**IQ, "secret": 1}}, "channel 'iq': secret: Extra inputs are not permitted"),
        ({"iq": {**IQ, "shape": [1 << 20, 1 << 20]}}, "channel 'iq': shape .* claims 2,199,023,255,552 bytes"),
        ({"iq": {**IQ, "shape": [10**18]}}, "channel 'iq': shape .* claims"),
        ({"iq": {**IQ, "shape": [10**4000]}}, "holds an integer of 13288 bits; the most is 64"),
    ],
)  # fmt: skip
def test_an_impossible_channel_is_refused_by_name(content: object, problem: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=problem.replace("(got", r"\(got").replace("')", r"'\)")) as caught:
        read_meta(meta(tmp_path, content))
    assert str(caught.value).startswith(f"{tmp_path / META}: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["../iq", "/etc/passwd", "a/b", "..", ".", "", "a\\b", "a\0b", META, "a\nb", "\ud800", "x" * 300, "é" * 200],
)
def test_channel_names_that_are_not_files_of_the_sensor_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"channel name .* (leaves the|cannot be)") as caught:
        read_meta(meta(tmp_path, {name: IQ}))
    str(caught.value).encode()  # it can be printed


@pytest.mark.parametrize("name", ["video.avi", "iq 2", ".hidden", "größe", "..a"])
def test_unusual_names_that_are_files_of_the_sensor_are_read(name: str, tmp_path: Path) -> None:
    assert list(read_meta(meta(tmp_path, {name: IQ}))) == [name]


def test_a_missing_meta_json_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"radar/meta.json: cannot be read: No such file"):
        read_meta(tmp_path / "radar")


def test_replacing_a_file_that_fails_midway_keeps_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_file(tmp_path / "a", "old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "old"
    assert not (tmp_path / ".a.new").exists()


def test_a_link_under_the_name_of_the_scratch_file_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "raw").write_text("samples")
    (tmp_path / ".a.new").symlink_to("raw")
    replace_file(tmp_path / "a", "new")
    assert (tmp_path / "raw").read_text() == "samples"
    assert (tmp_path / "a").read_text() == "new"
    assert not (tmp_path / "a").is_symlink()
