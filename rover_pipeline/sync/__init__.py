"""Matching of samples of different sensors in time, and the times at which samples were taken."""
