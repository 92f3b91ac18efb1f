"""A simulated rover in a known world: traces like those of the real rig, with the ground truth beside them.

The function that makes one is `rover_pipeline.simulate.record.simulate`. It is not imported here, because Numba, which
it needs, takes a second to import, and a look-up of names should not wait for that.
"""

from rover_pipeline.simulate.presets import PRESETS, Preset

__all__ = ["PRESETS", "Preset"]
