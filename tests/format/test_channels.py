"""All six formats keep the contract of a channel, and each format keeps its bytes on disk."""

from __future__ import annotations

import lzma
import struct
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest

from rover_pipeline.errors import FormatError, SampleError, counted
from rover_pipeline.format.channels import create_channel, encode_sample, open_channel
from rover_pipeline.format.channels.lzmaf import stream_ends, stream_size
from rover_pipeline.format.meta import FORMATS, ChannelSpec
from tests.kit import check_channel, pictures, spec_of, stored, write_channel

LOSSY = ("mjpg", "jpg")


def noise(type: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Random bytes as samples of a type, (sample, ...). Floating-point samples include NaN and infinities."""
    rng = np.random.default_rng(seed)
    if type == "b1":
        return rng.random(shape) < 0.5
    dtype = np.dtype(type)
    return np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)


@pytest.mark.parametrize(
    ("type", "shape"),
    [
        ("u1", ()),
        ("i2", (3, 2)),
        ("f2", (2, 5)),
        ("f4", (3,)),
        ("f8", ()),
        ("c8", (2, 2)),
        ("u8", (1, 1, 7)),
        ("b1", (9,)),
    ],
)
@pytest.mark.parametrize("format", [format for format in FORMATS if format not in LOSSY])
def test_lossless_formats_keep_the_contract(format: str, type: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    samples = noise(type, (4, *shape))
    check_channel(spec_of(samples, format), samples, tmp_path)


@pytest.mark.parametrize("format", LOSSY)
def test_jpeg_formats_keep_the_contract(format: str, tmp_path: Path) -> None:
    samples = pictures(4, 16, 24)
    check_channel(spec_of(samples, format), samples, tmp_path, tolerance=8)


@pytest.mark.parametrize("format", ["raw", "lzma", "lzmaf"])
def test_samples_larger_than_the_blocks_of_a_reader_keep_the_contract(format: str, tmp_path: Path) -> None:
    samples = np.repeat(noise("u2", (3, 1, 1024)), 700, axis=1)  # 1.4 MB each, and compressible
    spec = spec_of(samples, format)
    channel = open_channel(write_channel(tmp_path / "big", spec, samples), spec)
    assert np.array_equal(channel.read(1, 3), samples[1:3])


@pytest.mark.parametrize("format", FORMATS)
def test_a_channel_without_samples_reads_as_empty(format: str, tmp_path: Path) -> None:
    spec = spec_of(np.zeros((0, 16, 24, 3), "u1"), format)
    create_channel(tmp_path / "empty", spec).close()
    channel = open_channel(tmp_path / "empty", spec)
    assert len(channel) == 0 and channel.leftover == ""
    assert channel.read().shape == (0, 16, 24, 3)


@pytest.mark.parametrize("format", LOSSY)
def test_pictures_keep_red_in_the_first_channel(format: str, tmp_path: Path) -> None:
    red = np.zeros((2, 16, 16, 3), "u1")
    red[..., 0] = 200
    spec = spec_of(red, format)
    images = open_channel(write_channel(tmp_path / "red", spec, red), spec).read()
    assert images[..., 0].min() > 190 and images[..., 1:].max() < 10


@pytest.mark.parametrize("format", LOSSY)
@pytest.mark.parametrize(("type", "shape"), [("u2", (8, 8, 3)), ("u1", (8, 8)), ("u1", (8, 8, 4)), ("u1", ())])
def test_jpeg_formats_refuse_samples_that_are_not_rgb_pictures(
    format: Any, type: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    good = pictures(1, 8, 8)
    path = write_channel(tmp_path / "good", spec_of(good, format), good)
    wrong = ChannelSpec(format=format, type=type, shape=shape)
    with pytest.raises(FormatError, match="holds RGB pictures"):
        open_channel(path, wrong)
    with pytest.raises(FormatError, match="holds RGB pictures"):
        create_channel(tmp_path / "new", wrong)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("format", LOSSY)
def test_a_picture_of_another_size_is_named_with_both_sizes(format: Any, tmp_path: Path) -> None:
    samples = pictures(3, 16, 24)
    path = write_channel(tmp_path / "video", spec_of(samples, format), samples)
    channel = open_channel(path, ChannelSpec(format=format, type="u1", shape=(16, 32, 3)))
    with pytest.raises(SampleError, match=r"sample 1.*\(16, 24\).*\[16, 32\]"):
        channel.read(1, 2)


def test_lzmaf_is_one_stream_for_each_sample_and_an_index_of_their_ends(tmp_path: Path) -> None:
    samples = noise("u2", (3, 4, 5))
    path = write_channel(tmp_path / "rng", spec_of(samples, "lzmaf"), samples)
    data, offsets = path.read_bytes(), np.fromfile(tmp_path / "rng_i", "<u8")
    assert offsets.tolist()[0] == 0 and offsets[-1] == len(data) and len(offsets) == 4
    for i, sample in enumerate(samples):
        assert lzma.decompress(data[offsets[i] : offsets[i + 1]]) == sample.tobytes()


def test_lzmaf_without_an_index_is_indexed_from_its_streams_and_says_so(tmp_path: Path) -> None:
    samples = noise("u2", (5, 4, 5))
    spec = spec_of(samples, "lzmaf")
    path = write_channel(tmp_path / "rng", spec, samples)
    index = (tmp_path / "rng_i").read_bytes()
    for kept, indexed in ((b"", 5), (index[:24], 3), (index[:29], 3)):
        (tmp_path / "rng_i").write_bytes(kept)
        channel = open_channel(path, spec)
        assert np.array_equal(channel.read(), samples)
        assert [f"indexed {counted(indexed, 'sample')} from" in note for note in channel.notes] == [True]
        assert (tmp_path / "rng_i").read_bytes() == kept, "reading must not change a recording"
    (tmp_path / "rng_i").unlink()
    assert np.array_equal(open_channel(path, spec).read(), samples)


@pytest.mark.parametrize(("entry", "value"), [(0, 7), (1, 0), (3, 5), (2, 2**63)])
def test_an_lzmaf_index_that_does_not_rise_is_named_by_its_entry(entry: int, value: int, tmp_path: Path) -> None:
    samples = noise("u2", (4, 4, 5))
    path = write_channel(tmp_path / "rng", spec_of(samples, "lzmaf"), samples)
    offsets = np.fromfile(tmp_path / "rng_i", "<u8")
    offsets[entry] = value
    offsets.tofile(tmp_path / "rng_i")
    bad = entry + 1 if value == 2**63 else entry
    with pytest.raises(FormatError, match=rf"rng_i: entry {bad} at byte {8 * bad}: offsets must rise from 0"):
        open_channel(path, spec_of(samples, "lzmaf"))


def test_a_corrupt_lzmaf_sample_is_named_by_number_and_byte_and_the_others_are_read(tmp_path: Path) -> None:
    samples = noise("u2", (4, 30, 5))
    spec = spec_of(samples, "lzmaf")
    path = write_channel(tmp_path / "rng", spec, samples)
    start = int(np.fromfile(tmp_path / "rng_i", "<u8")[2])
    data = bytearray(path.read_bytes())
    data[start + 100] ^= 0xFF
    path.write_bytes(data)
    channel = open_channel(path, spec)
    with pytest.raises(SampleError, match=f"rng: sample 2 at byte {start}: is corrupt") as caught:
        channel.read()
    assert caught.value.sample == 2
    assert np.array_equal(channel.read(0, 2), samples[:2]) and np.array_equal(channel.read(3, 4), samples[3:])


def test_lzmaf_samples_of_another_size_are_refused_by_what_they_claim(tmp_path: Path) -> None:
    samples = noise("u2", (2, 4, 5))
    path = write_channel(tmp_path / "rng", spec_of(samples, "lzmaf"), samples)
    channel = open_channel(path, ChannelSpec(format="lzmaf", type="u2", shape=(4, 6)))
    with pytest.raises(SampleError, match=r"sample 0 at byte 0: decodes to 40 bytes, \[4, 6\] of u2 is 48"):
        channel.read()


def test_the_claimed_size_of_a_stream_is_its_decompressed_size() -> None:
    for size in (0, 1, 127, 128, 100_000):
        assert stream_size(lzma.compress(b"x" * size)) == size
    many_blocks = lzma.compress(b"x" * 1000)
    assert stream_size(many_blocks + many_blocks[:12]) is None
    assert stream_size(many_blocks[:-1]) is None
    assert stream_size(b"") is None


def test_streams_are_located_across_the_blocks_of_a_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = [lzma.compress(bytes([i]) * 50) for i in range(6)]
    path = tmp_path / "rng"
    path.write_bytes(b"".join(streams))
    ends = np.cumsum([len(stream) for stream in streams]).tolist()
    with path.open("rb") as file:
        for block in (1, 5, 6, 7, 64, len(streams[0]), 1 << 22):
            monkeypatch.setattr("rover_pipeline.format.channels.lzmaf._SCAN", block)
            assert stream_ends(file.fileno(), 0, ends[-1], 1 << 30) == ends
            assert stream_ends(file.fileno(), ends[1], ends[-1] - 1, 1 << 30) == ends[2:-1]


def test_a_magic_inside_a_sample_does_not_split_it(tmp_path: Path) -> None:
    # LZMA2 stores bytes uncompressed when it cannot make them smaller.
    inner = lzma.compress(noise("u1", (64,)).tobytes())
    samples = np.frombuffer(inner * 3, "u1").reshape(3, -1)
    spec = spec_of(samples, "lzmaf")
    path = write_channel(tmp_path / "rng", spec, samples)
    assert b"\xfd7zXZ\x00" in path.read_bytes()[12:-12]
    (tmp_path / "rng_i").unlink()
    assert np.array_equal(open_channel(path, spec).read(), samples)


def test_lzma_is_one_xz_stream_of_the_raw_bytes_and_never_the_streams_of_lzmaf(tmp_path: Path) -> None:
    samples = noise("u2", (3, 4, 5))
    path = write_channel(tmp_path / "rng", spec_of(samples, "lzma"), samples)
    assert lzma.decompress(path.read_bytes()) == samples.tobytes()
    many = write_channel(tmp_path / "many", spec_of(samples, "lzmaf"), samples)
    with pytest.raises(FormatError, match=r"many: holds bytes after the end of its stream.*lzmaf"):
        open_channel(many, spec_of(samples, "lzma"))


def test_npz_holds_the_array_data_in_files_numbered_from_zero(tmp_path: Path) -> None:
    samples = noise("f4", (3, 2, 2))
    path = write_channel(tmp_path / "depth", spec_of(samples, "npz"), samples)
    assert sorted(stored(path)) == ["000000.npz", "000001.npz", "000002.npz"]
    assert np.load(path / "000001.npz")["data"].tobytes() == samples[1].tobytes()


def test_npz_files_are_read_however_numpy_saved_them(tmp_path: Path) -> None:
    samples = noise("i4", (3, 2, 5))
    (tmp_path / "depth").mkdir()
    np.savez(tmp_path / "depth" / "000000.npz", data=samples[0])
    np.savez_compressed(tmp_path / "depth" / "000001.npz", data=np.asfortranarray(samples[1]), other=np.zeros(3))
    np.savez_compressed(tmp_path / "depth" / "000002.npz", data=samples[2])
    assert np.array_equal(open_channel(tmp_path / "depth", spec_of(samples, "npz")).read(), samples)


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"data": np.zeros((2, 6), "i4")}, r"holds \[2, 6\] of int32, not \[2, 5\] of i4"),
        ({"data": np.zeros((2, 5), "f4")}, r"holds \[2, 5\] of float32, not \[2, 5\] of i4"),
        ({"date": np.zeros((2, 5), "i4")}, "holds no array named `data`"),
    ],
)
def test_npz_files_that_hold_something_else_are_named(
    arrays: dict[str, np.ndarray], problem: str, tmp_path: Path
) -> None:
    samples = noise("i4", (2, 2, 5))
    path = write_channel(tmp_path / "depth", spec_of(samples, "npz"), samples)
    np.savez(path / "000001.npz", **arrays)  # type: ignore[arg-type]
    channel = open_channel(path, spec_of(samples, "npz"))
    assert np.array_equal(channel.read(0, 1), samples[:1])
    with pytest.raises(SampleError, match=f"sample 1: 000001.npz {problem}"):
        channel.read()


def test_pictures_numbered_from_one_are_read_and_noted(tmp_path: Path) -> None:
    samples = pictures(3, 16, 24)
    spec = spec_of(samples, "jpg")
    from_zero = write_channel(tmp_path / "zero", spec, samples)
    (tmp_path / "one").mkdir()
    for i in range(3):
        (tmp_path / "one" / f"{i + 1:06d}.jpg").write_bytes((from_zero / f"{i:06d}.jpg").read_bytes())
    channel = open_channel(tmp_path / "one", spec)
    assert np.array_equal(channel.read(), open_channel(from_zero, spec).read())
    assert "numbering starts at 1" in channel.notes[0]


@pytest.mark.parametrize(("removed", "problem"), [(0, None), (1, "sample 1: 000001.jpg is missing")])
def test_a_missing_picture_is_named(removed: int, problem: str | None, tmp_path: Path) -> None:
    samples = pictures(4, 16, 24)
    spec = spec_of(samples, "jpg")
    path = write_channel(tmp_path / "images", spec, samples)
    (path / f"{removed:06d}.jpg").unlink()
    if problem is None:  # looks like ffmpeg's numbering from 1: it gets a note and has one sample less than `ts`
        assert len(open_channel(path, spec)) == 3 and open_channel(path, spec).notes
    else:
        with pytest.raises(FormatError, match=problem):
            open_channel(path, spec)


def test_a_stray_file_among_numbered_ones_is_noted_and_not_counted(tmp_path: Path) -> None:
    samples = pictures(2, 16, 24)
    spec = spec_of(samples, "jpg")
    path = write_channel(tmp_path / "images", spec, samples)
    (path / "Thumbs.db").write_bytes(b"")
    channel = open_channel(path, spec)
    assert len(channel) == 2 and "Thumbs.db" in channel.notes[0]


def test_mjpg_is_a_video_that_other_players_open(tmp_path: Path) -> None:
    samples = pictures(5, 16, 24)
    path = write_channel(tmp_path / "video.avi", spec_of(samples, "mjpg"), samples)
    with av.open(str(path)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(frames) == 5 and np.abs(np.stack(frames).astype(int) - samples).max() <= 12


def test_a_video_that_opencv_wrote_is_read(tmp_path: Path) -> None:
    samples = pictures(5, 16, 24)
    path = tmp_path / "video.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 30, (24, 16))
    for image in samples:
        writer.write(image[..., ::-1])
    writer.release()
    images = open_channel(path, spec_of(samples, "mjpg")).read()
    assert images.shape == samples.shape and np.abs(images.astype(int) - samples).max() <= 12


def test_frames_in_the_further_lists_of_a_large_video_are_read(tmp_path: Path) -> None:
    # OpenDML: a video above 1 GB has more RIFF lists. Their stored sizes may be wrong after an interruption.
    frames = [encode_sample("mjpg", image) for image in pictures(3, 16, 24)]
    chunks = [b"00dc" + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2) for data in frames]
    junk = b"JUNK" + struct.pack("<I", 3) + b"abc\0"
    lists = [b"RIFF\0\0\0\0" + kind + b"LIST\0\0\0\0movi" for kind in (b"AVI ", b"AVIX")]
    path = tmp_path / "video.avi"
    path.write_bytes(lists[0] + chunks[0] + junk + chunks[1] + b"idx1" + struct.pack("<I", 0) + lists[1] + chunks[2])
    channel = open_channel(path, spec_of(pictures(3, 16, 24), "mjpg"))
    assert len(channel) == 3 and np.abs(channel.read().astype(int) - pictures(3, 16, 24)).max() <= 8


def test_a_raw_file_that_shrinks_while_it_is_read_gives_an_error_and_not_old_memory(
    tmp_path: Path,
) -> None:
    samples = noise("f8", (8,))
    path = write_channel(tmp_path / "ts", spec_of(samples), samples)
    channel = open_channel(path, spec_of(samples))
    path.write_bytes(path.read_bytes()[:24])
    with pytest.raises(SampleError, match="sample 3 at byte 24: the file became shorter"):
        channel.read()


def test_a_partial_last_raw_sample_is_described_by_bytes(tmp_path: Path) -> None:
    (tmp_path / "iq").write_bytes(bytes(25))
    channel = open_channel(tmp_path / "iq", ChannelSpec(format="raw", type="i2", shape=(5,)))
    assert len(channel) == 2
    assert channel.leftover.endswith("the last 5 bytes, from byte 20, are part of one")
