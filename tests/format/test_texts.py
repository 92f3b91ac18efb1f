"""Small text files are read with bounds, from regular files only, and whatever is wrong is one short line."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from rover_pipeline.errors import FormatError
from rover_pipeline.format import texts
from rover_pipeline.format.channels import open_channel
from rover_pipeline.format.files import exists
from rover_pipeline.format.meta import ChannelSpec
from rover_pipeline.format.texts import parse_json, parse_yaml, read_json, read_text, read_yaml

_ALIASES = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (os.mkfifo, "a named pipe"),
        (os.mkdir, "a directory"),
        (_socket, "a socket"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
    ],
)
def test_what_is_no_regular_file_is_refused_without_waiting(
    make: Callable[[Path], object], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket has at most 108 bytes
    make(Path("x"))
    for read in (read_json, read_yaml, read_text):
        with pytest.raises(FormatError, match=rf"^x: is {kind} where a file belongs"):
            read(Path("x"))
    for format in ("raw", "lzma", "lzmaf", "mjpg"):
        spec = ChannelSpec(format=format, type="u1", shape=(2, 2, 3))
        with pytest.raises(FormatError, match=rf"^x: is {kind} where a file belongs"):
            open_channel(Path("x"), spec)


def test_a_sparse_file_is_refused_by_its_size(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:
        file.truncate(6 << 30)
    with pytest.raises(FormatError, match=r"x: has 6,442,450,944 bytes, more than the 4,194,304 of any text"):
        read_json(tmp_path / "x")


def test_the_largest_text_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b'"' + b"a" * (texts.MAX_TEXT_BYTES - 2) + b'"')
    assert len(read_json(tmp_path / "x")) == texts.MAX_TEXT_BYTES - 2
    (tmp_path / "x").write_bytes(b'"' + b"a" * (texts.MAX_TEXT_BYTES - 1) + b'"')
    with pytest.raises(FormatError, match="more than the"):
        read_json(tmp_path / "x")


def test_a_file_that_is_no_text_is_named_and_not_printed_back(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"ab\xff" * 1000)
    with pytest.raises(FormatError, match=r"x: is not text: byte 2 is no UTF-8") as caught:
        read_json(tmp_path / "x")
    assert len(str(caught.value)) < len(str(tmp_path)) + 80
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "absent")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, "is not valid JSON"),
        ("[" * 33 + "]" * 33, "nested more than 32 deep"),
        ('{"a":' * 33 + "1" + "}" * 33, "nested more than 32 deep"),
        ("9" * 5000, "is not valid JSON"),
        ("9" * 4000, "holds an integer of 13288 bits"),
        ('{"a": 1', "is not valid JSON"),
    ],
)
def test_json_that_no_sidecar_holds_is_refused(text: str, problem: str) -> None:
    with pytest.raises(FormatError, match=f"^x.json: .*{problem}"):
        parse_json(text, "x.json")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (_ALIASES, "more than 100,000 values once its aliases are filled in"),
        ("a: &a [*a]", "more than 100,000 values once its aliases are filled in"),
        ("[" * 33 + "]" * 33, "nested more than 32 deep"),
        ("[" * 100_000, "nest"),  # libyaml from 0.2.6 on has a limit of its own, and words of its own for it
        ("- " * 100_000 + "a", "nested more than 32 deep"),
        ("a: 0x" + "f" * 100, "holds an integer of 400 bits"),
        ("a: 2024-02-31", "is no YAML"),
        ("? [a]\n: b", "is no YAML"),
        ("!!python/object/apply:os.system ['true']", "is no YAML"),
        ("a: [", "is no YAML"),
    ],
)
def test_yaml_that_no_configuration_holds_is_refused(text: str, problem: str) -> None:
    with pytest.raises(FormatError, match=f"^x.yaml: .*{re.escape(problem)}") as caught:
        parse_yaml(text, "x.yaml")
    assert len(str(caught.value)) < 250


def test_yaml_with_aliases_is_read() -> None:
    content = parse_yaml("base: &base {rate: 10}\na: *base\nb: {<<: *base, port: 1}", "x")
    assert content == {"base": {"rate": 10}, "a": {"rate": 10}, "b": {"rate": 10, "port": 1}}
    assert parse_yaml("", "x") is None


def test_only_what_does_not_exist_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "lost").symlink_to("nothing")
    assert not exists(tmp_path / "absent") and not exists(tmp_path / "file" / "below")
    assert exists(tmp_path / "file") and exists(tmp_path / "loop") and exists(tmp_path / "lost")

    def broken(path: Path) -> None:
        raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr("os.stat", broken)
    with pytest.raises(OSError, match="Input/output"):
        exists(tmp_path / "file")
