"""Import of captures of the sensor makers' own tools as roverd traces: one module for each maker."""
