"""When samples were taken: the clock of each sensor, estimated from the arrivals of its samples at the host."""
