import atexit
import os
import sys
import threading

if sys.version_info < (3, 11):  # noqa: UP036, from a checkout nothing else says so
    raise SystemExit("rover-pipeline: needs Python 3.11 or newer; this is {}.{}".format(*sys.version_info))

try:
    from rover_pipeline.cli import main
except KeyboardInterrupt:  # while modules are loaded
    raise SystemExit(130) from None

status = main()
if sys.argv[1:2] == ["step"] and threading.active_count() == 1:
    # Nothing is left to do, and to take modules apart whose memory is shared with the process that worked takes long.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
raise SystemExit(status)
