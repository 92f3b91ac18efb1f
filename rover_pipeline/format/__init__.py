"""The roverd format: channels, sensors, traces, and the writer of virtual sensors."""
