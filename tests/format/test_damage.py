"""Damaged bytes of any kind give one of our errors: no other exception, no endless loop, no huge allocation."""

from __future__ import annotations

import binascii
import functools
import io
import json
import lzma
import resource
import signal
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rover_pipeline.errors import FormatError, SampleError
from rover_pipeline.format.channels import open_channel
from rover_pipeline.format.channels.base import Channel
from rover_pipeline.format.meta import FORMATS, META, ChannelSpec
from rover_pipeline.format.sensor import Sensor
from tests.kit import WHOLE, pictures, small_trace, spec_of, stored, write_channel

FEW = settings(
    max_examples=1000 if WHOLE else 60,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
_HEADROOM = 512 << 20
_LONGEST_S = 5


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """Limit memory to what small samples need, so that a huge allocation fails with an exception that the tests see."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _HEADROOM, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def timeout() -> Iterator[None]:
    """Interrupts an endless loop."""

    def stop(_number: int, _frame: object) -> None:
        raise AssertionError(f"took longer than {_LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_LONGEST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def only_our_errors(path: Path) -> Iterator[None]:
    """Ignores a FormatError that names the path in one line. All other exceptions are raised."""
    try:
        yield
    except FormatError as error:
        assert str(path) in str(error) and "\n" not in str(error)


def read_all(path: Path, spec: ChannelSpec) -> None:
    """Open a channel and read every sample that it claims to have."""
    with timeout(), only_our_errors(path):
        channel = open_channel(path, spec)
        for at in range(min(len(channel), 20)):
            with only_our_errors(path):
                check_read(channel, at, at + 1)
        if len(channel) < 100_000:
            with only_our_errors(path):
                check_read(channel, 0, len(channel))


def check_read(channel: Channel, start: int, stop: int) -> None:
    try:
        assert channel.read(start, stop).shape == (stop - start, *channel.spec.shape)
    except SampleError as error:
        assert start <= error.sample < stop


@st.composite
def mutations(draw: st.DrawFn) -> list[tuple[str, float, bytes]]:
    """Changes of bytes: (kind, position as a fraction of the length, new bytes)."""
    kinds = st.sampled_from(["flip", "overwrite", "insert", "delete", "cut", "repeat"])
    one = st.tuples(kinds, st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=12))
    return draw(st.lists(one, min_size=1, max_size=4))


def mutated(data: bytes, changes: list[tuple[str, float, bytes]]) -> bytes:
    for kind, fraction, new in changes:
        at = int(fraction * len(data))
        if kind == "flip" and data:
            data = data[:at] + bytes([data[at] ^ (new[0] or 1)]) + data[at + 1 :]
        elif kind == "overwrite":
            data = data[:at] + new + data[at + len(new) :]
        elif kind == "insert":
            data = data[:at] + new + data[at:]
        elif kind == "delete":
            data = data[:at] + data[at + len(new) :]
        elif kind == "cut":
            data = data[:at]
        elif kind == "repeat":
            data = data + data[at:]
    return data


def valid_samples(format: str) -> np.ndarray:
    if format in ("mjpg", "jpg"):
        return pictures(3, 16, 16)
    return np.arange(3 * 6 * 5, dtype="u2").reshape(3, 6, 5)


def file_of(path: Path, name: str) -> Path:
    """The file with the bytes that `stored` calls `name`."""
    return path / name if path.is_dir() else path.with_name(path.name + name)


@pytest.mark.parametrize("format", FORMATS)
@FEW
@given(data=st.data())
def test_damage_to_valid_bytes_is_one_of_our_errors(format: str, data: st.DataObject, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("damage")
    samples = valid_samples(format)
    spec = spec_of(samples, format)
    path = write_channel(folder / "channel", spec, samples)
    before = stored(path)
    for name in data.draw(st.sets(st.sampled_from(sorted(before)), min_size=1)):
        file_of(path, name).write_bytes(mutated(before[name], data.draw(mutations())))
    read_all(path, spec)


@pytest.mark.parametrize("format", FORMATS)
@FEW
@given(content=st.binary(max_size=300), keep=st.integers(0, 24), index=st.none() | st.binary(max_size=64))
def test_random_bytes_are_one_of_our_errors(
    format: str, content: bytes, keep: int, index: bytes | None, tmp_path_factory: Any
) -> None:
    folder = tmp_path_factory.mktemp("random")
    samples = valid_samples(format)
    spec = spec_of(samples, format)
    whole = stored(write_channel(folder / "whole", spec, samples))
    beginning = next(iter(whole.values()))[:keep]  # so that some cases get past the magic bytes
    path = folder / "channel"
    if format in ("npz", "jpg"):
        path.mkdir()
        (path / f"000000.{format}").write_bytes(beginning + content)
    else:
        path.write_bytes(beginning + content)
        if index is not None:
            (folder / "channel_i").write_bytes(index)
    read_all(path, spec)


@FEW
@given(offsets=st.lists(st.integers(0, 700) | st.sampled_from([2**32, 2**63 - 1, 2**63, 2**64 - 1]), max_size=7))
def test_any_index_beside_whole_streams_is_read_or_refused(offsets: list[int], tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("index")
    samples = valid_samples("lzmaf")
    path = write_channel(folder / "channel", spec_of(samples, "lzmaf"), samples)
    np.array(offsets, "<u8").tofile(folder / "channel_i")
    read_all(path, spec_of(samples, "lzmaf"))


_HEADERS = ("{[]: 1}", "{'descr': ", "(" * 3000, "'\\", "1\n 2", "{**1}", "\0")
_VALUES = st.none() | st.booleans() | st.integers(-10, 2**70) | st.floats() | st.text(max_size=6)
_JSON = st.recursive(
    _VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


@FEW
@given(data=st.data())
def test_a_damaged_meta_json_is_one_of_our_errors(data: st.DataObject, tmp_path_factory: Any) -> None:
    radar = small_trace(tmp_path_factory.mktemp("meta") / "t", 2, sensors=["radar"]) / "radar"
    text = (radar / META).read_bytes()
    if data.draw(st.booleans()):
        (radar / META).write_bytes(mutated(text, data.draw(mutations())))
    else:  # valid JSON with other content
        content = json.loads(text)
        channel = data.draw(st.sampled_from(sorted(content)))
        key = data.draw(st.sampled_from(["format", "type", "shape", "desc", "args", "other"]))
        known = st.sampled_from([*FORMATS, "u1", "i8", "c16", [], [1 << 29], [1 << 20, 1 << 9], [1] * 40])
        content[channel][key] = data.draw(known | _JSON)
        (radar / META).write_text(json.dumps(content))
    with timeout(), only_our_errors(radar):
        sensor = Sensor(radar)
        for name in sensor.specs:
            with only_our_errors(radar):
                channel = sensor.channel(name)
                channel.read(0, min(1, len(channel)))
        with only_our_errors(radar):
            count = sensor.length(truncate=True)
            sensor.times(count)
            sensor.valid(count)


@FEW
@given(
    header=st.text(max_size=60) | st.sampled_from(["{[]: 1}", "{'descr': ", "(" * 3000, "'\\", "1\n 2", "{**1}", "\0"])
)
def test_any_header_of_an_array_in_a_valid_archive_is_read_or_refused(header: str, tmp_path_factory: Any) -> None:
    read_member(tmp_path_factory.mktemp("npz"), header.encode("latin1", "replace"))


@FEW
@given(changes=mutations())
def test_a_damaged_header_of_an_array_in_a_valid_archive_is_read_or_refused(
    changes: list[tuple[str, float, bytes]], tmp_path_factory: Any
) -> None:
    header = b"{'descr': '<u2', 'fortran_order': False, 'shape': (6, 5), }"
    read_member(tmp_path_factory.mktemp("npz"), mutated(header, changes))


def read_member(folder: Path, header: bytes) -> None:
    """Read a valid zip archive, with correct checksums, that holds an array with this header."""
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(60)
    write_archive(folder / "channel", array)
    read_all(folder / "channel", spec_of(valid_samples("npz"), "npz"))


def write_archive(folder: Path, member: bytes, compression: int = zipfile.ZIP_DEFLATED) -> None:
    folder.mkdir()
    with zipfile.ZipFile(folder / "000000.npz", "w", compression) as archive:
        archive.writestr("data.npy", member)


@FEW
@given(
    chunks=st.lists(
        st.tuples(
            st.sampled_from([b"RIFF", b"LIST", b"00dc", b"00db", b"01wb", b"JUNK", b"idx1", b"ix00", b"\0\0\0\0"]),
            st.none() | st.integers(0, 40) | st.sampled_from([2**31, 2**32 - 1, 2**32 - 8]),
            st.binary(max_size=20) | st.just(b"movi") | st.just(b"rec "),
        ),
        max_size=8,
    )
)
def test_any_sequence_of_chunks_in_a_video_is_read_or_refused(chunks: list[Any], tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("avi") / "video.avi"
    parts = [kind + struct.pack("<I", len(body) if size is None else size) + body for kind, size, body in chunks]
    path.write_bytes(b"RIFF\0\0\0\0AVI " + b"".join(parts))
    read_all(path, spec_of(pictures(1, 16, 16), "mjpg"))


@functools.cache
def bomb(size: int) -> bytes:
    """A small .xz stream of many zeros."""
    compressor = lzma.LZMACompressor(preset=0)
    parts = [compressor.compress(bytes(1 << 20)) for _ in range(size >> 20)]
    return b"".join([*parts, compressor.flush()])


@pytest.mark.system
def test_a_stream_that_decodes_to_gigabytes_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    (tmp_path / "rng").write_bytes(bomb(640 << 20))
    channel = open_channel(tmp_path / "rng", ChannelSpec(format="lzmaf", type="u1", shape=(10,)))
    with (
        timeout(),
        pytest.raises(SampleError, match=r"sample 0 at byte 0: decodes to 671,088,640 bytes, \[10\] of u1"),
    ):
        channel.read()


def test_a_stream_that_claims_less_than_it_holds_is_refused_without_the_memory_for_it(tmp_path: Path) -> None:
    data = bytearray(bomb(640 << 20))
    honest = lzma.compress(bytes(10), preset=0)
    length = (struct.unpack("<I", data[-8:-4])[0] + 1) * 4
    # The index of a small stream is put behind the blocks of the large one.
    honest_length = (struct.unpack("<I", honest[-8:-4])[0] + 1) * 4
    data[-12 - length :] = honest[-12 - honest_length :]
    (tmp_path / "rng").write_bytes(data)
    channel = open_channel(tmp_path / "rng", ChannelSpec(format="lzmaf", type="u1", shape=(10,)))
    with timeout(), pytest.raises(SampleError, match="sample 0 at byte 0: is corrupt"):
        channel.read()


@pytest.mark.parametrize("format", ["lzma", "lzmaf"])
def test_a_stream_that_requests_gigabytes_of_dictionary_is_read_or_refused(format: Any, tmp_path: Path) -> None:
    data = bytearray(lzma.compress(bytes(10), preset=0))
    size = (data[12] + 1) * 4  # block header: size, flags, filter id, size of properties, dictionary, ..., CRC32
    assert data[14:16] == b"\x21\x01"
    data[16] = 40
    data[12 + size - 4 : 12 + size] = struct.pack("<I", binascii.crc32(data[12 : 12 + size - 4]))
    (tmp_path / "x").write_bytes(data)
    read_all(tmp_path / "x", ChannelSpec(format=format, type="u1", shape=(10,)))


def test_an_archive_that_unpacks_to_gigabytes_is_refused_by_its_header(tmp_path: Path) -> None:
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "|u1", "fortran_order": False, "shape": (_HEADROOM * 2,)})
    write_archive(tmp_path / "x", array.getvalue())
    spec = ChannelSpec(format="npz", type="u1", shape=(10,))
    with timeout(), pytest.raises(SampleError, match=rf"holds \[{_HEADROOM * 2}\] of uint8, not \[10\] of u1"):
        open_channel(tmp_path / "x", spec).read()


@pytest.mark.parametrize("compression", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_an_archive_with_a_compression_that_numpy_never_uses_is_refused(compression: int, tmp_path: Path) -> None:
    array = io.BytesIO()
    np.save(array, np.zeros(10, "u1"))
    write_archive(tmp_path / "x", array.getvalue(), compression)
    with pytest.raises(SampleError, match="compressed in a way that numpy does not use"):
        open_channel(tmp_path / "x", ChannelSpec(format="npz", type="u1", shape=(10,))).read()


def test_an_array_of_objects_is_refused_and_never_unpickled(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    np.savez(tmp_path / "x" / "000000.npz", data=np.array([open], object))
    with pytest.raises(SampleError, match=r"holds \[1\] of object"):
        open_channel(tmp_path / "x", ChannelSpec(format="npz", type="u8", shape=(1,))).read()


@pytest.mark.parametrize("format", ["jpg", "mjpg"])
def test_a_picture_whose_header_claims_gigabytes_is_refused_by_its_header(format: str, tmp_path: Path) -> None:
    samples = pictures(1, 16, 16)
    path = write_channel(tmp_path / "x", spec_of(samples, format), samples)
    target = path / "000000.jpg" if path.is_dir() else path
    data = bytearray(target.read_bytes())
    header = data.index(b"\xff\xc0")
    data[header + 5 : header + 9] = b"\xff\xff\xff\xff"
    target.write_bytes(data)
    with timeout(), pytest.raises(SampleError, match=r"is a JPEG of \(65535, 65535\), not \[16, 16\]"):
        open_channel(path, spec_of(samples, format)).read()
    data[header : header + 2] = b"\0\0"
    target.write_bytes(data)
    with pytest.raises(SampleError, match="does not say how large it is"):
        open_channel(path, spec_of(samples, format)).read()


def test_a_shape_that_needs_more_memory_than_there_is_gives_one_error(tmp_path: Path) -> None:
    samples = valid_samples("lzmaf")
    path = write_channel(tmp_path / "rng", spec_of(samples, "lzmaf"), samples)
    channel = open_channel(path, ChannelSpec(format="lzmaf", type="u1", shape=(1 << 30,)))
    with pytest.raises(FormatError, match="samples 0 to 3 take 3,221,225,472 bytes, more than there is memory for"):
        channel.read()
