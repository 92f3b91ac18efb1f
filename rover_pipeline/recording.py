"""The old place of `Recording`, for steps of users that import it from here; `rover_pipeline.steps` has it too."""

from rover_pipeline.engine.recording import Recording

__all__ = ["Recording"]
