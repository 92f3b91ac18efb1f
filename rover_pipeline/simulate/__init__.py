"""A simulated rover in a known world: traces like those of the real rig, with the ground truth beside them.

The function that makes one is `rover_pipeline.simulate.record.simulate`. It is not imported here, because Numba, which
it needs, takes a second to import, and a look-up of names should not wait for that.
"""

from rover_pipeline.simulate.faults import FAULTS as _FAULTS
from rover_pipeline.simulate.presets import PRESETS, Preset

#: What can be damaged on request: name -> what is wrong afterwards.
FAULTS = {name: fault.description for name, fault in _FAULTS.items()}

__all__ = ["FAULTS", "PRESETS", "Preset"]
