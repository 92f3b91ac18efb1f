"""What is read from a trace, and the figures computed from it."""
