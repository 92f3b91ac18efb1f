"""How the rig and the bodies move: closed paths, gaits, and exact derivatives of both."""
