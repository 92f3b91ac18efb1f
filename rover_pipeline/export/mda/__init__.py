"""MDA 0.1.0: one file for each training item, with its payload, its annotations and their revisions."""
