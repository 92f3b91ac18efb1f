"""Captures of sensor makers' own tools, turned into roverd traces. One file a maker."""
