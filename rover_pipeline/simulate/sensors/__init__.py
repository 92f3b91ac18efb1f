"""Models of the sensors: from the scene and the motion of a sensor to what it measures. Arrays in, arrays out."""
