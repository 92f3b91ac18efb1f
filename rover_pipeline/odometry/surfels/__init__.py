"""The map: small planes (surfels) in voxels of several sizes."""
