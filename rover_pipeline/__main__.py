import sys

if sys.version_info < (3, 11):  # noqa: UP036, from a checkout nothing else says so
    raise SystemExit("rover-pipeline: needs Python 3.11 or newer; this is {}.{}".format(*sys.version_info))

try:
    from rover_pipeline.cli import main
except KeyboardInterrupt:  # while modules are loaded
    raise SystemExit(130) from None

raise SystemExit(main())
