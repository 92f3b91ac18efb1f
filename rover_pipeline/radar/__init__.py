"""Radar: from raw FMCW samples to spectra, points and the radar's velocity. Arrays in, arrays out."""
