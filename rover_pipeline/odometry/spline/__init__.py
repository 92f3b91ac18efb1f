"""The trajectory as a uniform cubic B-spline on R3 x SO(3)."""
