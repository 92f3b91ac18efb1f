"""What becomes SVG or WebP on the page: charts, maps and frames of the sensors."""
