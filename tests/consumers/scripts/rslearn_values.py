"""Print where rslearn finds occupied pixels and lines in each window, in metres. usage: rslearn_values.py DIR"""

import json
import sys

import numpy as np
from rslearn.dataset import Dataset
from upath import UPath

dataset = Dataset(UPath(sys.argv[1]))
found = []
for window in dataset.load_windows():
    size = window.projection.x_resolution, window.projection.y_resolution
    bands = dataset.layers["occupancy"].band_sets[0]
    raster = window.data.read_raster(
        "occupancy", bands.bands, bands.instantiate_raster_format(), window.projection, window.bounds, 0
    )
    rows, columns = np.nonzero((raster.array[0, 0] > 50) & (raster.array[0, 0] != 255))
    pixels = np.stack([columns + window.bounds[0] + 0.5, rows + window.bounds[1] + 0.5], 1)
    vectors = dataset.layers["trajectory"].instantiate_vector_format()
    lines = [
        (np.array(feature.geometry.shp.coords) * size).tolist()
        for feature in window.data.read_vector("trajectory", vectors, group_idx=0)
    ]
    times = [each.timestamp() for each in window.time_range]
    found.append({"name": window.name, "occupied": (pixels * size).tolist(), "lines": lines, "times": times})
print(json.dumps(found))
