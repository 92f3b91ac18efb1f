"""Frames of a video: in order, complete, and at the requested size."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from pydantic import ByteSize

from rover_pipeline.camera.intrinsics import read_intrinsics
from rover_pipeline.camera.lens import Lens
from rover_pipeline.camera.options import FramesOptions
from rover_pipeline.camera.pictures import undistort
from rover_pipeline.camera.steps import frames, smaller
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import RoverError, SampleError
from rover_pipeline.format.channels import open_channel
from rover_pipeline.format.channels.jpeg import MjpgChannel
from rover_pipeline.format.meta import ChannelSpec
from rover_pipeline.format.sensor import TS, TS_SPEC, Sensor, SensorWriter
from rover_pipeline.format.trace import CONFIG
from rover_pipeline.options import DaskOptions, InputOptions
from rover_pipeline.table import find_step
from rover_pipeline.workflow.flow import Flow
from tests.kit import PER_PROCESS, assert_same, snapshot, times

STEP = find_step("_camera_frames")
HEIGHT, WIDTH, COUNT = 120, 208, 9


def scenery(count: int = COUNT, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """RGB pictures, u1 (frame, height, width, 3): smooth noise that differs in every frame, which shows wrong frames.

    Colours change less than brightness, because JPEG stores them at half the size.
    """
    rng = np.random.default_rng(5)
    coarse = rng.integers(30, 226, (count, 8, 12, 1)) + rng.integers(-30, 30, (count, 8, 12, 3))
    coarse = coarse.astype("u1")
    return np.stack([cv2.resize(picture, (width, height), interpolation=cv2.INTER_CUBIC) for picture in coarse])


def record(trace: Path, video: np.ndarray, lens: dict[str, Any] | None = None) -> Path:
    spec = ChannelSpec(format="mjpg", type="u1", shape=video.shape[1:])
    with SensorWriter(trace / "camera", {TS: TS_SPEC, "video.avi": spec}) as writer:
        writer.append(**{TS: times(len(video), 30.0), "video.avi": video})
    if lens is not None:
        (trace / "camera" / "camera.json").write_text(json.dumps(lens))
    (trace / CONFIG).write_text("camera: {type: camera}\n")
    return trace


def make(trace: Path, chunk: int = 1 << 20, corrupt: bool = False, **options: Any) -> Sensor:
    request = Request(options, InputOptions(mark_corrupt=corrupt))
    run_step(STEP, trace, "_camera_frames", request, threads=2, dask=DaskOptions(chunk=ByteSize(chunk)))
    return Sensor(trace / "_camera_frames")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("camera") / "trace", scenery())


def copied(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "trace"))


def decoded_one_by_one(path: Path) -> np.ndarray:
    """Every frame decoded by FFmpeg at full size."""
    with av.open(str(path)) as container:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


def difference(one: np.ndarray, other: np.ndarray) -> float:
    """Mean absolute difference of pixels."""
    return float(np.abs(one.astype("f4") - other.astype("f4")).mean())


@pytest.mark.parametrize("size", [(52, 30), (104, 60), (90, 50), (208, 120), (300, 200)])
def test_every_frame_is_the_one_that_another_decoder_gives(
    size: tuple[int, int], recorded: Path, tmp_path: Path
) -> None:
    trace = copied(recorded, tmp_path)
    result = make(trace, chunk=1, width=size[0], height=size[1]).channel("image").read()
    assert result.shape == (COUNT, size[1], size[0], 3)
    expected = [
        cv2.resize(picture, size, interpolation=cv2.INTER_AREA if size[0] <= WIDTH else cv2.INTER_LINEAR)
        for picture in decoded_one_by_one(trace / "camera" / "video.avi")
    ]
    for number, picture in enumerate(result):
        distances = [difference(picture, other) for other in expected]
        assert np.argmin(distances) == number and distances[number] < 5 < 40 < sorted(distances)[1]


def test_pictures_are_decoded_at_the_smallest_size_that_is_not_below_the_result(recorded: Path) -> None:
    video = Sensor(recorded / "camera").channel("video.avi")
    for size, expected in {(52, 30): (30, 52), (53, 30): (60, 104), (26, 31): (60, 104), (400, 15): (120, 208)}.items():
        view = smaller(video, options=FramesOptions(width=size[0], height=size[1]))
        assert view.spec.shape == (*expected, 3)
        assert view.read(2, 3).shape == (1, *expected, 3)
    assert video.spec.shape == (HEIGHT, WIDTH, 3)


def test_a_missing_size_follows_in_proportion_without_cropping() -> None:
    assert FramesOptions().size(1920, 1080) == (480, 270)
    assert FramesOptions(height=None).size(640, 480) == (480, 360)
    assert FramesOptions(width=None, height=240).size(640, 480) == (320, 240)
    assert FramesOptions(width=None, height=None).size(641, 479) == (641, 479)


@pytest.mark.parametrize("format", ["jpg", "mjpg"])
def test_pictures_are_stored_as_jpeg_on_request(format: str, recorded: Path, tmp_path: Path) -> None:
    trace = copied(recorded, tmp_path)
    plain = make(trace, width=104, height=60).channel("image").read()
    packed = make(trace, width=104, height=60, format=format)
    assert packed.specs["image"].format == format
    assert difference(packed.channel("image").read(), plain) < 4
    capture = cv2.VideoCapture(str(packed.path / "image" / ("%06d.jpg" if format == "jpg" else "")).rstrip("/"))
    for picture in plain:
        success, decoded = capture.read()
        assert success and difference(decoded[..., ::-1], picture) < 5
    assert not capture.read()[0]


@pytest.mark.parametrize("format", ["jpg", "mjpg"])
def test_jpeg_pictures_do_not_depend_on_chunks(format: str, recorded: Path, tmp_path: Path) -> None:
    trace = copied(recorded, tmp_path)
    few = snapshot(make(trace, chunk=1, width=52, height=30, format=format).path, ignore=PER_PROCESS)
    many = snapshot(make(trace, width=52, height=30, format=format).path, ignore=PER_PROCESS)
    assert_same(many, few, "other chunks")


def test_the_video_of_a_published_trace_is_read_from_the_virtual_camera(recorded: Path, tmp_path: Path) -> None:
    trace = copied(recorded, tmp_path)
    expected = make(trace, width=52, height=30).channel("image").read()
    other = tmp_path / "published"
    shutil.copytree(trace / "camera", other / "_camera")
    (other / CONFIG).touch()
    (other / "camera").mkdir()
    (other / "camera" / "meta.json").write_text(json.dumps({"ts": TS_SPEC.model_dump(exclude_none=True)}))
    shutil.copy(trace / "camera" / "ts", other / "camera" / "ts")
    assert make(other, width=52, height=30).channel("image").read().tobytes() == expected.tobytes()
    flow = Flow({"traces": [str(other)]})
    assert str(other / "_camera" / "video.avi") in flow.needs("_camera_frames").files(other)


def damaged(trace: Path, number: int, change: str) -> Path:
    """The trace with damaged coded pixels in one frame; the container stays intact."""
    path = trace / "camera" / "video.avi"
    video = open_channel(path, Sensor(trace / "camera").specs["video.avi"])
    assert isinstance(video, MjpgChannel)
    frame = bytearray(video.jpeg(number))
    content = path.read_bytes()
    at = content.index(frame)
    middle = len(frame) // 2
    if change == "lost packet":  # the rest moves up, as when USB drops a packet
        frame[middle : middle + 512] = b""
        frame[-2:-2] = bytes(512)
    elif change == "cut":  # the camera ended the frame early, with a valid end marker
        frame[middle:] = b"\xff\xd9" * ((len(frame) - middle) // 2) + b"\xd9" * ((len(frame) - middle) % 2)
    else:
        frame[:16] = bytes(16)
    path.write_bytes(content[:at] + bytes(frame) + content[at + len(frame) :])
    return trace


@pytest.mark.parametrize("change", ["lost packet", "cut", "header"])
def test_a_damaged_frame_is_an_error_or_is_marked_as_invalid(change: str, recorded: Path, tmp_path: Path) -> None:
    trace = damaged(copied(recorded, tmp_path), 4, change)
    with pytest.raises(SampleError, match=r"camera/video\.avi: sample 4 at byte \d+: .*mark_corrupt"):
        make(trace, width=52, height=30)
    assert not (trace / "_camera_frames").exists()

    result = make(trace, corrupt=True, width=52, height=30)
    image, valid = result.channel("image").read(), result.valid(COUNT)
    assert valid.tolist() == [1, 1, 1, 1, 0, 1, 1, 1, 1] and not image[4].any()
    others = np.arange(COUNT) != 4
    whole = make(Path(shutil.copytree(recorded, tmp_path / "whole")), width=52, height=30).channel("image").read()
    assert image[others].tobytes() == whole[others].tobytes()


LENS = {"fx": 150.0, "fy": 155.0, "cx": 101.0, "cy": 62.0, "k": [-0.28, 0.09, -0.01, 0.0], "p": [0.004, -0.003]}


def lens_of(text: str, width: int, height: int) -> Lens:
    return read_intrinsics(text, width, height).lens


def test_undistortion_equals_that_of_opencv() -> None:
    picture = scenery(1)[0]
    lens = lens_of(json.dumps(LENS), WIDTH, HEIGHT)
    matrix = np.array([[lens.fx, 0, lens.cx], [0, lens.fy, lens.cy], [0, 0, 1]])
    expected = cv2.undistort(picture, matrix, np.array([*lens.k[:2], *lens.p, lens.k[2]]))
    undistorted = undistort(picture, lens)
    assert np.abs(undistorted.astype("i4") - expected)[2:-2, 2:-2].max() <= 2
    assert difference(undistorted, picture) > 5, "the lens of the test has too little distortion"


def test_where_the_distortion_folds_back_the_picture_is_black() -> None:
    lens = lens_of(json.dumps({**LENS, "fx": 80.0, "fy": 80.0, "k": [-0.5, 0, 0, 0]}), WIDTH, HEIGHT)
    assert lens.max_tangent == pytest.approx((1 / 1.5) ** 0.5, abs=2e-3)
    undistorted = undistort(np.full((HEIGHT, WIDTH, 3), 200, "u1"), lens)
    off = np.hypot(*lens.undistorted().directions())
    assert not undistorted[off > lens.max_tangent + 0.02].any() and undistorted[off < 0.6].all()


def test_a_straight_line_of_the_world_is_straight_after_undistortion(tmp_path: Path) -> None:
    lens = lens_of(json.dumps({**LENS, "k": [-0.3, 0.1, 0.0, 0.02]}), WIDTH, HEIGHT)
    picture = np.zeros((HEIGHT, WIDTH, 3), "u1")
    x = np.linspace(-0.75, 0.75, 4000)
    columns, rows = lens.pixels(x, 0.15 * x - 0.2)
    inside = (columns > 0) & (columns < WIDTH - 1) & (rows > 0) & (rows < HEIGHT - 1)
    picture[np.rint(rows[inside]).astype(int), np.rint(columns[inside]).astype(int)] = 255
    undistorted = undistort(cv2.GaussianBlur(picture, (0, 0), 1.2), lens)[..., 0].astype("f8")
    across = np.flatnonzero(undistorted.max(axis=0) > 20)
    down = (undistorted * np.arange(HEIGHT)[:, None]).sum(axis=0)[across] / undistorted.sum(axis=0)[across]
    expected = lens.fy * (0.15 * (across - lens.cx) / lens.fx - 0.2) + lens.cy
    assert len(across) > 150 and np.abs(down - expected).max() < 0.6


def test_resized_pictures_have_the_intrinsics_of_their_size(recorded: Path, tmp_path: Path) -> None:
    trace = copied(recorded, tmp_path)
    (trace / "camera" / "camera.json").write_text(json.dumps(LENS))
    result = make(trace, width=52, height=30)
    lens = lens_of((result.path / "camera.json").read_text(), 52, 30)
    assert (lens.fx, lens.fy) == (37.5, 38.75) and lens.k[0] == -0.28
    # The centre of the first pixel is half a pixel from the corner of the picture, before and after.
    assert (lens.cx + 0.5, lens.cy + 0.5) == ((101.0 + 0.5) / 4, (62.0 + 0.5) / 4)

    undistorted = make(trace, width=52, height=30, undistort=True)
    assert json.loads((undistorted.path / "camera.json").read_text())["k"] == [0, 0, 0, 0]
    full = cv2.resize(undistort(scenery()[3], lens_of(json.dumps(LENS), WIDTH, HEIGHT)), (52, 30),
                      interpolation=cv2.INTER_AREA)  # fmt: skip
    assert difference(undistorted.channel("image").read(3, 4)[0], full) < 3


def test_four_k_without_a_name_are_a_fisheye_unless_the_option_says_otherwise(recorded: Path, tmp_path: Path) -> None:
    trace = copied(recorded, tmp_path)
    content = {**LENS, "fx": 90.0, "fy": 90.0, "k": [-0.1, 0.02, -0.003, 0.0], "p": [0, 0]}
    (trace / "camera" / "camera.json").write_text(json.dumps(content))
    decoded = Sensor(trace / "camera").channel("video.avi").read(3, 4)[0]
    matrix, k = np.array([[90.0, 0, 101], [0, 90.0, 62], [0, 0, 1]]), np.array(content["k"])
    expected = {
        "fisheye": cv2.fisheye.undistortImage(decoded, matrix, k, Knew=matrix),
        "brown": cv2.undistort(decoded, matrix, np.array([*k[:2], 0, 0, k[2]])),
    }
    for lens, model, source in ((None, "fisheye", "numbers"), ("brown", "brown", "camera.lens")):
        result = make(trace, width=None, height=None, undistort=True, lens=lens)
        measured = json.loads((result.path / "provenance.json").read_text())["measured"]
        assert (measured["lens"], measured["lens_from"]) == (model, source)
        image = result.channel("image").read(3, 4)[0]
        assert {name: difference(image, other) < 1.5 for name, other in expected.items()} == {
            name: name == model for name in expected
        }
    (trace / "camera" / "camera.json").write_text(json.dumps({**content, "model": "fisheye"}))
    with pytest.raises(RoverError, match=r"camera.*names the model fisheye, and camera\.lens is brown"):
        make(trace, undistort=True, lens="brown")


def test_undistortion_with_missing_or_invalid_intrinsics_is_an_error(recorded: Path, tmp_path: Path) -> None:
    trace = copied(recorded, tmp_path)
    with pytest.raises(RoverError, match=r"undistort needs the lens: camera/camera\.json is not there"):
        make(trace, undistort=True)
    for content in ("{", '{"fx": 1}', json.dumps({**LENS, "k": 5 * [0.1]}), json.dumps({**LENS, "fx": 0})):
        (trace / "camera" / "camera.json").write_text(content)
        with pytest.raises(RoverError, match=r"camera\.json(: is not valid JSON| must give)"):
            make(trace, undistort=True)


def test_the_step_is_a_plain_function() -> None:
    video = scenery(2)
    result = frames(video, options=FramesOptions(width=20, height=10), shapes={"video": video.shape[1:]})
    assert result.shape == (2, 10, 20, 3) and result.dtype == np.uint8
