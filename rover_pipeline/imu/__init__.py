"""IMU: biases of gyroscope and accelerometer, and orientation. Arrays in, arrays out."""
