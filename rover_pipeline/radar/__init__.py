"""Radar: from raw FMCW samples to what they show. Arrays in, arrays out."""
