"""Calibrations from recordings: files that the configuration names."""
