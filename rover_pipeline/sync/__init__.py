"""Which samples of different sensors belong together, and when samples were taken."""
