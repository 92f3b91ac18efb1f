"""Camera: resized and undistorted pictures, and what a model makes of them. Arrays in, arrays out."""
