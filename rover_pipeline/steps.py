"""What a step of your own imports: `from rover_pipeline.steps import step`."""

from rover_pipeline.engine.decorator import step
from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.shared import Shared
from rover_pipeline.engine.step import Inspection, Output, Step
from rover_pipeline.options import Options

__all__ = ["Inspection", "Options", "Output", "Recording", "Shared", "Step", "step"]
