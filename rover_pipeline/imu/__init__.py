"""Inertial measurements without the errors of their sensor, and the orientation they tell. Arrays in, arrays out."""
