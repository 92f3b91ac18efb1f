"""A model of the user's on resized pictures. The models are made here, a few numbers each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from pydantic import ByteSize

from rover_pipeline.camera.model import Model
from rover_pipeline.camera.options import ModelOptions
from rover_pipeline.config import Config
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.engine.options import DaskOptions
from rover_pipeline.errors import ConfigError, RoverError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.table import find_step
from tests.camera.test_frames import make, record, scenery

STEP = find_step("_camera_model")
Shape = list[int | str]


def save(path: Path, nodes: list[Any], taken: tuple[int, Shape], given: tuple[int, Shape], **constants: Any) -> Path:
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", *taken)],
        [helper.make_tensor_value_info("y", *given)],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return path


def strongest_colour(path: Path, bias: float = 0.0) -> Path:
    """Scores of the classes red, green and blue: the colours themselves, blue with a bias."""
    weights = np.eye(3, dtype="f4").reshape(3, 3, 1, 1)
    shape: Shape = [1, 3, "height", "width"]
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"])
    return save(
        path, [node], (TensorProto.FLOAT, shape), (TensorProto.FLOAT, shape), w=weights, b=np.array([0, 0, bias], "f4")
    )


def negative(path: Path) -> Path:
    """A picture for a picture, bytes with the colours last, of one size."""
    shape: Shape = [1, 12, 20, 3]
    nodes = [
        helper.make_node("Cast", ["x"], ["counts"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["white", "counts"], ["left"]),
        helper.make_node("Cast", ["left"], ["y"], to=TensorProto.UINT8),
    ]
    return save(path, nodes, (TensorProto.UINT8, shape), (TensorProto.UINT8, shape), white=np.array(255, "f4"))


def test_labels_are_the_highest_scores_in_every_pixel_of_every_frame(tmp_path: Path) -> None:
    trace = record(tmp_path / "trace", scenery())
    pictures = make(trace, width=52, height=30).channel("image").read()
    model = {"path": str(strongest_colour(tmp_path / "model.onnx")), "classes": ["red", "green", "blue"]}
    run_step(STEP, trace, "_camera_model", Request(model), threads=2, dask=DaskOptions(chunk=ByteSize(1)))
    made = Sensor(trace / "_camera_model")
    labels = made.channel("labels").read()
    assert labels.dtype == np.uint8 and np.array_equal(labels, pictures.argmax(axis=-1))
    assert len(np.unique(labels)) == 3
    assert json.loads((made.path / "classes.json").read_text()) == ["red", "green", "blue"]
    options = json.loads((made.path / "provenance.json").read_text())["options"]
    assert options["digest"] and options["path"] == model["path"]


def test_pictures_are_brought_to_the_size_layout_and_values_the_model_takes(tmp_path: Path) -> None:
    picture = scenery(1, 24, 40)[0]
    whole = picture.astype("f8").reshape(12, 2, 20, 2, 3).mean(axis=(1, 3))
    given = Model(ModelOptions(path=str(negative(tmp_path / "n.onnx")), layout="nhwc", input="counts", output="image"))(
        picture
    )
    assert given.shape == (12, 20, 3) and np.abs(255 - given - whole).max() <= 1

    shape: Shape = [1, 3, 12, 20]
    node = [helper.make_node("Identity", ["x"], ["y"])]
    path = save(tmp_path / "i.onnx", node, (TensorProto.FLOAT, shape), (TensorProto.FLOAT, shape))
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    given = Model(ModelOptions(path=str(path), mean=mean, std=std, output="image"))(picture)
    wanted = np.clip((whole / 255 - mean) / std, 0, 1) * 255
    assert np.abs(given - wanted).max() < 2.5


def test_a_model_that_changed_is_another_request_and_another_digest_than_asked_for_an_error(tmp_path: Path) -> None:
    path = strongest_colour(tmp_path / "model.onnx")
    before = Config.parse({"camera": {"model": {"path": str(path)}}}).section("camera.model")
    assert Config.parse({"camera": {"model": before}}).section("camera.model") == before
    strongest_colour(path, bias=0.5)
    after = Config.parse({"camera": {"model": {"path": str(path)}}}).section("camera.model")
    assert before["path"] == after["path"] and before["digest"] != after["digest"]
    with pytest.raises(ConfigError, match=r"camera\.model: .*model\.onnx: has the digest .* it is another model"):
        Config.parse({"camera": {"model": before}})
    with pytest.raises(ConfigError, match=r"camera\.model: .*absent\.onnx: No such file"):
        Config.parse({"camera": {"model": {"path": str(tmp_path / "absent.onnx")}}})


def _two_inputs(path: Path) -> Path:
    shape: Shape = [1, 3, 8, 8]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "z"], ["y"])], "test",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "z")],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def _garbage(path: Path) -> Path:
    path.write_bytes(b"no model")
    return path


@pytest.mark.parametrize(
    ("build", "options", "problem"),
    [
        (_garbage, {}, "onnxruntime cannot load it"),
        (_two_inputs, {}, "takes 2 inputs"),
        (negative, {"layout": "nhwc"}, "it takes bytes: set `input: counts`"),
        (negative, {"input": "counts"}, r"takes \[1, 12, 20, 3\], not one RGB picture with the axes nchw"),
        (negative, {"input": "counts", "layout": "nhwc"}, r"its labels are \[1, 12, 20, 3\] of uint8"),
        (strongest_colour, {"output": "image", "layout": "nhwc"}, "not one RGB picture with the axes nhwc"),
    ],
)
def test_a_model_of_another_kind_says_what_does_not_fit(
    build: Callable[[Path], Path], options: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    trace = record(tmp_path / "trace", scenery(2))
    make(trace, width=20, height=12)
    with pytest.raises(RoverError, match=f"camera.model model.onnx: .*{problem}"):
        run_step(STEP, trace, "_camera_model", Request({"path": str(build(tmp_path / "model.onnx")), **options}))
    assert not (trace / "_camera_model").exists()
