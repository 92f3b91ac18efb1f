"""What a step is, how its inputs are opened, how frames are spread over workers, and how it is run."""
