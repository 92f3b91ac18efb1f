"""The simulated scenes: solids, their materials, and the rays that meet them."""
