"""Reads a recording through torch's DataLoader, with workers that are forked and spawned, and prints what it saw.

python torch_loader.py CHECKOUT TRACE
"""

import json
import sys
import warnings


def power_only(record):
    return {"power": record.power.power, "ts": record.ts}


def main(trace_path):
    import numpy as np
    import torch
    from torch.utils.data import DataLoader

    import rover_pipeline as rp

    warnings.simplefilter("error")  # torch warns of arrays that cannot be written to
    seen = {}
    trace = rp.open(trace_path)
    synced = trace.synced("camera", "power", "bev")
    for method in (None, "fork", "spawn"):
        more = {"num_workers": 2, "multiprocessing_context": method} if method else {}
        loader = DataLoader(synced, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(1), **more)
        total, order = 0, []
        for batch in loader:
            assert isinstance(batch, rp.Record) and batch.power.power.dtype == torch.float32
            assert batch.camera.picture.shape[1:] == (16, 16, 3) and batch.bev.valid.all()
            assert torch.equal(batch.power.power[:, 0, 0].long(), batch.power.index)
            total += len(batch.ts)
            order += batch.ts.tolist()
        assert sorted(order) == synced.ts.tolist()
        seen[str(method)] = total
    loader = DataLoader(synced.map(power_only), batch_size=len(synced), num_workers=1)
    (batch,) = list(loader)
    expected = np.stack([trace["power"].power[int(at)] for at in synced.members["power"].index[synced.instants]])
    assert np.array_equal(batch["power"].numpy(), expected)
    absent = trace.synced("camera", "power", complete=False)
    try:
        list(DataLoader(absent, batch_size=len(absent)))
    except TypeError:
        seen["absent"] = "refused"
    assert "torch" not in sys.modules["rover_pipeline.reading.synced"].__dict__
    print(json.dumps(seen))


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    main(sys.argv[2])
