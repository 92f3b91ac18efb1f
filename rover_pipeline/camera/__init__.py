"""Camera: resized and undistorted pictures, and the results of a model on them. Arrays in, arrays out."""
