import gc
import os
import sys

# What the start of a step makes lives as long as the process. Searching it for garbage again and again, and taking it
# apart at the end, takes a third of the time of a step on a few frames. `run_rule` enables the search for the work.
if sys.argv[1:2] == ["step"]:
    gc.disable()

from rover_pipeline.cli import main

status = main()
if sys.argv[1:2] == ["step"]:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
raise SystemExit(status)
