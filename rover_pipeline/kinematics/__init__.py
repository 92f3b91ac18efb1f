"""How the rig moves: one trajectory, one deskew, one clock, one rig. Arrays in, arrays out."""
