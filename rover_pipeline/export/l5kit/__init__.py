"""The scenes of L5Kit, for programs that predict motion: the rig and what is around it at 10 Hz."""
