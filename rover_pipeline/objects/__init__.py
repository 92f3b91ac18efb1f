"""Bodies that move, found and tracked in the lidar's sweeps. Arrays in, arrays out."""
