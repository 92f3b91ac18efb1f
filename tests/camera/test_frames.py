"""Pictures of a video, each by its number, whole, and at the size that is asked for."""

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

from rover_pipeline.camera.lens import Lens
from rover_pipeline.camera.options import FramesOptions
from rover_pipeline.camera.pictures import undistort
from rover_pipeline.camera.steps import frames, smaller
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.engine.parallel import DaskOptions
from rover_pipeline.engine.step import find_step
from rover_pipeline.errors import RoverError, SampleError
from rover_pipeline.format.channels import open_channel
from rover_pipeline.format.channels.mjpg import MjpgChannel
from rover_pipeline.format.meta import ChannelSpec
from rover_pipeline.format.sensor import TS, TS_SPEC, Sensor, SensorWriter
from rover_pipeline.format.trace import CONFIG
from rover_pipeline.options import InputOptions
from rover_pipeline.workflow.flow import Flow
from tests.kit import PER_PROCESS, assert_same, snapshot, times

STEP = find_step("rover_pipeline.camera.steps:frames")
HEIGHT, WIDTH, COUNT = 120, 208, 9


def scenery(count: int = COUNT, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """RGB pictures, u1 (frame, height, width, 3): smooth noise, other in every frame, so that any slip shows.

    Colours change less than brightness: JPEG keeps them at half the size.
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
    """Every frame by FFmpeg, in whole size."""
    with av.open(str(path)) as container:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


def far(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one.astype("f4") - other.astype("f4")).mean())


@pytest.mark.parametrize("size", [(52, 30), (104, 60), (90, 50), (208, 120), (300, 200)])
def test_every_frame_number_is_the_picture_that_another_decoder_finds_there(
    size: tuple[int, int], recorded: Path, tmp_path: Path
) -> None:
    trace = copied(recorded, tmp_path)
    made = make(trace, chunk=1, width=size[0], height=size[1]).channel("image").read()
    assert made.shape == (COUNT, size[1], size[0], 3)
    wanted = [
        cv2.resize(picture, size, interpolation=cv2.INTER_AREA if size[0] <= WIDTH else cv2.INTER_LINEAR)
        for picture in decoded_one_by_one(trace / "camera" / "video.avi")
    ]
    for number, picture in enumerate(made):
        distances = [far(picture, other) for other in wanted]
        assert np.argmin(distances) == number and distances[number] < 5 < 40 < sorted(distances)[1]


def test_the_picture_is_decoded_no_larger_than_it_must_be_and_never_smaller(recorded: Path) -> None:
    video = Sensor(recorded / "camera").channel("video.avi")
    for size, wanted in {(52, 30): (30, 52), (53, 30): (60, 104), (26, 31): (60, 104), (400, 15): (120, 208)}.items():
        view = smaller(video, options=FramesOptions(width=size[0], height=size[1]))
        assert view.spec.shape == (*wanted, 3)
        assert view.read(2, 3).shape == (1, *wanted, 3)
    assert video.spec.shape == (HEIGHT, WIDTH, 3)


def test_a_size_that_is_not_given_follows_in_proportion_and_nothing_is_cropped() -> None:
    assert FramesOptions().size(1920, 1080) == (480, 270)
    assert FramesOptions(height=None).size(640, 480) == (480, 360)
    assert FramesOptions(width=None, height=240).size(640, 480) == (320, 240)
    assert FramesOptions(width=None, height=None).size(641, 479) == (641, 479)


@pytest.mark.parametrize("format", ["jpg", "mjpg"])
def test_pictures_are_kept_as_jpeg_when_asked_to(format: str, recorded: Path, tmp_path: Path) -> None:
    trace = copied(recorded, tmp_path)
    plain = make(trace, width=104, height=60).channel("image").read()
    packed = make(trace, width=104, height=60, format=format)
    assert packed.specs["image"].format == format
    assert far(packed.channel("image").read(), plain) < 4
    capture = cv2.VideoCapture(str(packed.path / "image" / ("%06d.jpg" if format == "jpg" else "")).rstrip("/"))
    for picture in plain:
        there, found = capture.read()
        assert there and far(found[..., ::-1], picture) < 5
    assert not capture.read()[0]


@pytest.mark.parametrize("format", ["jpg", "mjpg"])
def test_jpeg_pictures_do_not_depend_on_chunks(format: str, recorded: Path, tmp_path: Path) -> None:
    trace = copied(recorded, tmp_path)
    few = snapshot(make(trace, chunk=1, width=52, height=30, format=format).path, ignore=PER_PROCESS)
    many = snapshot(make(trace, width=52, height=30, format=format).path, ignore=PER_PROCESS)
    assert_same(many, few, "other chunks")


def test_a_published_trace_keeps_its_video_beside_the_camera(recorded: Path, tmp_path: Path) -> None:
    trace = copied(recorded, tmp_path)
    wanted = make(trace, width=52, height=30).channel("image").read()
    other = tmp_path / "published"
    shutil.copytree(trace / "camera", other / "_camera")
    (other / CONFIG).touch()
    (other / "camera").mkdir()
    (other / "camera" / "meta.json").write_text(json.dumps({"ts": TS_SPEC.model_dump(exclude_none=True)}))
    shutil.copy(trace / "camera" / "ts", other / "camera" / "ts")
    assert make(other, width=52, height=30).channel("image").read().tobytes() == wanted.tobytes()
    flow = Flow({"traces": [str(other)]})
    assert str(other / "_camera" / "video.avi") in flow.sensor("camera", "video.avi", "ts").files(other)


def damaged(trace: Path, number: int, change: str) -> Path:
    """The trace with one frame damaged inside its coded pixels; the container stays whole."""
    path = trace / "camera" / "video.avi"
    video = open_channel(path, Sensor(trace / "camera").specs["video.avi"])
    assert isinstance(video, MjpgChannel)
    frame = bytearray(video.jpeg(number))
    content = path.read_bytes()
    at = content.index(frame)
    middle = len(frame) // 2
    if change == "lost packet":  # what follows moves up, as when USB drops a packet
        frame[middle : middle + 512] = b""
        frame[-2:-2] = bytes(512)
    elif change == "cut":  # the camera ended it early, but properly
        frame[middle:] = b"\xff\xd9" * ((len(frame) - middle) // 2) + b"\xd9" * ((len(frame) - middle) % 2)
    else:
        frame[:16] = bytes(16)
    path.write_bytes(content[:at] + bytes(frame) + content[at + len(frame) :])
    return trace


@pytest.mark.parametrize("change", ["lost packet", "cut", "header"])
def test_a_damaged_frame_is_an_error_that_names_it_or_is_marked(change: str, recorded: Path, tmp_path: Path) -> None:
    trace = damaged(copied(recorded, tmp_path), 4, change)
    with pytest.raises(SampleError, match=r"camera/video\.avi: sample 4 at byte \d+: .*mark_corrupt"):
        make(trace, width=52, height=30)
    assert not (trace / "_camera_frames").exists()

    made = make(trace, corrupt=True, width=52, height=30)
    image, valid = made.channel("image").read(), made.valid(COUNT)
    assert valid.tolist() == [1, 1, 1, 1, 0, 1, 1, 1, 1] and not image[4].any()
    others = np.arange(COUNT) != 4
    whole = make(Path(shutil.copytree(recorded, tmp_path / "whole")), width=52, height=30).channel("image").read()
    assert image[others].tobytes() == whole[others].tobytes()


LENS = {"fx": 150.0, "fy": 155.0, "cx": 101.0, "cy": 62.0, "k": [-0.28, 0.09, -0.01, 0.0], "p": [0.004, -0.003]}


def test_undistortion_is_that_of_opencv() -> None:
    picture = scenery(1)[0]
    lens = Lens.parse(json.dumps(LENS), WIDTH, HEIGHT)
    matrix = np.array([[lens.fx, 0, lens.cx], [0, lens.fy, lens.cy], [0, 0, 1]])
    wanted = cv2.undistort(picture, matrix, np.array([*lens.k[:2], *lens.p, lens.k[2]]))
    found = undistort(picture, lens)
    assert np.abs(found.astype("i4") - wanted)[2:-2, 2:-2].max() <= 2
    assert far(found, picture) > 5, "the lens of the test bends nothing"


def test_where_the_distortion_turns_back_nothing_is_seen_twice() -> None:
    lens = Lens.parse(json.dumps({**LENS, "fx": 80.0, "fy": 80.0, "k": [-0.5, 0, 0, 0]}), WIDTH, HEIGHT)
    assert lens.max_tangent == pytest.approx((1 / 1.5) ** 0.5, abs=2e-3)
    seen = undistort(np.full((HEIGHT, WIDTH, 3), 200, "u1"), lens)
    off = np.hypot(*lens.undistorted().directions())
    assert not seen[off > lens.max_tangent + 0.02].any() and seen[off < 0.6].all()


def test_a_straight_line_of_the_world_is_straight_after_undistortion(tmp_path: Path) -> None:
    lens = Lens.parse(json.dumps({**LENS, "k": [-0.3, 0.1, 0.0, 0.02]}), WIDTH, HEIGHT)
    picture = np.zeros((HEIGHT, WIDTH, 3), "u1")
    x = np.linspace(-0.75, 0.75, 4000)
    columns, rows = lens.pixels(x, 0.15 * x - 0.2)
    inside = (columns > 0) & (columns < WIDTH - 1) & (rows > 0) & (rows < HEIGHT - 1)
    picture[np.rint(rows[inside]).astype(int), np.rint(columns[inside]).astype(int)] = 255
    seen = undistort(cv2.GaussianBlur(picture, (0, 0), 1.2), lens)[..., 0].astype("f8")
    across = np.flatnonzero(seen.max(axis=0) > 20)
    down = (seen * np.arange(HEIGHT)[:, None]).sum(axis=0)[across] / seen.sum(axis=0)[across]
    wanted = lens.fy * (0.15 * (across - lens.cx) / lens.fx - 0.2) + lens.cy
    assert len(across) > 150 and np.abs(down - wanted).max() < 0.6


def test_resized_pictures_carry_the_lens_they_have_now(recorded: Path, tmp_path: Path) -> None:
    trace = copied(recorded, tmp_path)
    (trace / "camera" / "camera.json").write_text(json.dumps(LENS))
    made = make(trace, width=52, height=30)
    lens = Lens.parse((made.path / "camera.json").read_text(), 52, 30)
    assert (lens.fx, lens.fy) == (37.5, 38.75) and lens.k[0] == -0.28
    # The middle of the left upper pixel of four is half a pixel from the corner, before and after.
    assert (lens.cx + 0.5, lens.cy + 0.5) == ((101.0 + 0.5) / 4, (62.0 + 0.5) / 4)

    straight = make(trace, width=52, height=30, undistort=True)
    assert json.loads((straight.path / "camera.json").read_text())["k"] == [0, 0, 0, 0]
    full = cv2.resize(undistort(scenery()[3], Lens.parse(json.dumps(LENS), WIDTH, HEIGHT)), (52, 30),
                      interpolation=cv2.INTER_AREA)  # fmt: skip
    assert far(straight.channel("image").read(3, 4)[0], full) < 3


def test_undistortion_without_a_lens_and_with_a_broken_one_say_so(recorded: Path, tmp_path: Path) -> None:
    trace = copied(recorded, tmp_path)
    with pytest.raises(RoverError, match=r"undistort needs the lens: camera/camera\.json is not there"):
        make(trace, undistort=True)
    for content in ("{", '{"fx": 1}', json.dumps({**LENS, "k": [0.1]}), json.dumps({**LENS, "fx": 0})):
        (trace / "camera" / "camera.json").write_text(content)
        with pytest.raises(RoverError, match=r"camera\.json must give"):
            make(trace, undistort=True)


def test_the_step_is_a_plain_function() -> None:
    video = scenery(2)
    made = frames(video, options=FramesOptions(width=20, height=10), shapes={"video": video.shape[1:]})
    assert made.shape == (2, 10, 20, 3) and made.dtype == np.uint8
