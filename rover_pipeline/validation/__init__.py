"""What this program promises of its results beyond the format: read by `check`, a line for each promise not kept."""
