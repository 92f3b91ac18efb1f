"""The user's own model on resized pictures. The tests build models with a few weights each."""

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
from rover_pipeline.errors import ConfigError, RoverError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.options import DaskOptions
from rover_pipeline.table import find_step
from tests.camera.test_frames import make, record, scenery

STEP = find_step("_camera_model")
Shape = list[int | str]


def save(path: Path, nodes: list[Any], inputs: tuple[int, Shape], outputs: tuple[int, Shape], **constants: Any) -> Path:
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", *inputs)],
        [helper.make_tensor_value_info("y", *outputs)],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return path


def strongest_colour(path: Path, bias: float = 0.0) -> Path:
    """A model whose scores of the classes red, green and blue are the colours themselves, blue with a bias."""
    weights = np.eye(3, dtype="f4").reshape(3, 3, 1, 1)
    shape: Shape = [1, 3, "height", "width"]
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"])
    return save(
        path, [node], (TensorProto.FLOAT, shape), (TensorProto.FLOAT, shape), w=weights, b=np.array([0, 0, bias], "f4")
    )


def negative(path: Path) -> Path:
    """A model that inverts pictures of bytes with the axes nhwc, of one fixed size."""
    shape: Shape = [1, 12, 20, 3]
    nodes = [
        helper.make_node("Cast", ["x"], ["counts"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["white", "counts"], ["inverted"]),
        helper.make_node("Cast", ["inverted"], ["y"], to=TensorProto.UINT8),
    ]
    return save(path, nodes, (TensorProto.UINT8, shape), (TensorProto.UINT8, shape), white=np.array(255, "f4"))


def test_labels_are_the_classes_of_the_highest_scores(tmp_path: Path) -> None:
    trace = record(tmp_path / "trace", scenery())
    pictures = make(trace, width=52, height=30).channel("image").read()
    model = {"path": str(strongest_colour(tmp_path / "model.onnx")), "classes": ["red", "green", "blue"]}
    run_step(STEP, trace, "_camera_model", Request(model), threads=2, dask=DaskOptions(chunk=ByteSize(1)))
    sensor = Sensor(trace / "_camera_model")
    labels = sensor.channel("labels").read()
    assert labels.dtype == np.uint8 and np.array_equal(labels, pictures.argmax(axis=-1))
    assert len(np.unique(labels)) == 3
    assert json.loads((sensor.path / "classes.json").read_text()) == ["red", "green", "blue"]
    options = json.loads((sensor.path / "provenance.json").read_text())["options"]
    assert options["digest"] and options["path"] == model["path"]


def test_pictures_are_converted_to_the_size_layout_and_values_of_the_model(tmp_path: Path) -> None:
    picture = scenery(1, 24, 40)[0]
    whole = picture.astype("f8").reshape(12, 2, 20, 2, 3).mean(axis=(1, 3))
    options = ModelOptions(path=str(negative(tmp_path / "n.onnx")), layout="nhwc", input="counts", output="image")
    output = Model(options)(picture)
    assert output.shape == (12, 20, 3) and np.abs(255 - output - whole).max() <= 1

    shape: Shape = [1, 3, 12, 20]
    node = [helper.make_node("Identity", ["x"], ["y"])]
    path = save(tmp_path / "i.onnx", node, (TensorProto.FLOAT, shape), (TensorProto.FLOAT, shape))
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    output = Model(ModelOptions(path=str(path), mean=mean, std=std, output="image"))(picture)
    expected = np.clip((whole / 255 - mean) / std, 0, 1) * 255
    assert np.abs(output - expected).max() < 2.5


def test_scores_and_colours_that_are_no_numbers_are_an_error_and_no_class(tmp_path: Path) -> None:
    picture = scenery(1, 12, 20)[0]
    picture[3, 4, 1] = 0  # its logarithm, times nought, is no number
    shape: Shape = [1, 3, 12, 20]
    nodes = [helper.make_node("Log", ["x"], ["log"]), helper.make_node("Mul", ["log", "nought"], ["y"])]
    io = (TensorProto.FLOAT, shape)
    path = save(tmp_path / "nan.onnx", nodes, io, io, nought=np.zeros(1, "f4"))
    for output, text in (("labels", "scores that are not a number"), ("image", "colours that are not a number")):
        options = ModelOptions.model_validate({"path": str(path), "input": "counts", "output": output})
        with pytest.raises(ValueError, match=text):
            Model(options)(picture)


def test_whole_numbers_of_a_picture_are_counts_whatever_the_range_of_the_input(tmp_path: Path) -> None:
    shape: Shape = [1, 3, 12, 20]
    nodes = [
        helper.make_node("Mul", ["x", "white"], ["counts"]),
        helper.make_node("Round", ["counts"], ["whole"]),
        helper.make_node("Cast", ["whole"], ["y"], to=TensorProto.INT32),
    ]
    path = save(
        tmp_path / "n.onnx", nodes, (TensorProto.FLOAT, shape), (TensorProto.INT32, shape), white=np.array(255, "f4")
    )
    picture = scenery(1, 12, 20)[0]
    assert np.array_equal(Model(ModelOptions(path=str(path), output="image"))(picture), picture)


def test_a_changed_model_has_another_digest_and_the_old_one_is_an_error(tmp_path: Path) -> None:
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
def test_an_unsuitable_model_is_an_error_that_names_the_problem(
    build: Callable[[Path], Path], options: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    trace = record(tmp_path / "trace", scenery(2))
    make(trace, width=20, height=12)
    with pytest.raises(RoverError, match=f"camera.model model.onnx: .*{problem}"):
        run_step(STEP, trace, "_camera_model", Request({"path": str(build(tmp_path / "model.onnx")), **options}))
    assert not (trace / "_camera_model").exists()
