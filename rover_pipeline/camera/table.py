"""Declarations of the virtual sensors that are made from the camera."""

from __future__ import annotations

from rover_pipeline.camera.options import FramesOptions, ModelOptions
from rover_pipeline.engine.step import Output, Rate, Run, Shown, Step

STEPS = (
    Step(
        sensor="_camera_frames",
        function="rover_pipeline.camera.steps:frames",
        version=2,
        sections=("camera.frames",),
        options=FramesOptions,
        inputs={"video": "camera/video.avi"},
        views={"video": "rover_pipeline.camera.steps:smaller"},
        files={"camera": "camera/camera.json?"},
        outputs={"image": Output("Pictures, RGB. [row, column, colour]", lambda options: options.format, type="u1")},
        run=Run(
            inspect="rover_pipeline.camera.steps:inspect_lens",
            sidecars=("camera.json",),
            cost=Rate(("camera",), 16, 1.9),
        ),
        shown=Shown(summary="Whole pictures, RGB, 480x270 or as configured, without the lens's distortion when asked."),
    ),
    Step(
        sensor="_camera_model",
        function="rover_pipeline.camera.steps:model",
        version=2,
        sections=("camera.model",),
        options=ModelOptions,
        inputs={"image": "_camera_frames/image"},
        outputs={"*": Output("What camera.model made of the picture: {name}. [row, column], and RGB of an image.")},
        run=Run(
            inspect="rover_pipeline.camera.steps:inspect_model",
            sidecars=("classes.json",),
            cost=Rate(("camera",), 100, 1.0, 2000),
        ),
        shown=Shown(
            needs_option=("camera.model.path", "an ONNX file"),
            summary="`labels` or `image` u1: what an ONNX model of yours makes of `_camera_frames` (extra `model`).",
        ),
    ),
)
