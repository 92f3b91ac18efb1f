"""Checks of a trace by the command `check`: rules of the format, and those that our own results follow,
and how far trajectories are from a reference."""
