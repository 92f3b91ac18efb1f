import gc
import sys

# What the start of a step makes lives as long as the process. Searching it for garbage, again and again and once more
# at the end, takes a quarter of the time of the start; `run_rule` enables it for the work.
if sys.argv[1:2] == ["step"]:
    gc.disable()

from rover_pipeline.cli import main

status = main()
gc.freeze()
raise SystemExit(status)
