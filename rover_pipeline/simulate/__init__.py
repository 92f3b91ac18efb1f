"""A simulated rover in a known world: traces like those of the real rig, with the ground truth beside them."""
