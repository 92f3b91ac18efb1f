"""The datasets of rslearn: windows of the ground as GeoTIFF and GeoJSON."""
