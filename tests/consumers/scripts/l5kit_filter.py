"""Count what l5kit's own filter of agents rejects, by its code. usage: l5kit_filter.py DATASET.zarr

Its module imports torch and a numpy of 2020; the filter itself needs neither.
"""

import sys
import types
from unittest.mock import MagicMock

import numpy as np

sys.modules["torch"] = sys.modules["torch.utils"] = MagicMock()
sys.modules["torch.utils.data"] = types.SimpleNamespace(Dataset=object)  # type: ignore[assignment]
for name, kind in (("int", int), ("float", float), ("bool", bool), ("object", object)):
    if name not in np.__dict__:
        setattr(np, name, kind)

from l5kit.data import ChunkedDataset  # noqa: E402
from l5kit.dataset.select_agents import get_valid_agents  # noqa: E402

dataset = ChunkedDataset(sys.argv[1]).open()
for scene in dataset.scenes[:]:
    _, report, _ = get_valid_agents(scene["frame_index_interval"], dataset, 0.5, 30, 1.1, 50)
    print(report["total_agent_frames"], report["total_reject"])
