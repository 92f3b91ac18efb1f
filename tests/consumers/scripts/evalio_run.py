"""evalio's command, with our package and its libraries in reach behind those of this environment.

python evalio_run.py CHECKOUT SITE_PACKAGES evalio's arguments
"""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path

checkout, packages, *arguments = sys.argv[1:]
sys.path.append(checkout)
sys.path.append(str(Path(__file__).parent))
site.addsitedir(packages)
os.environ["EVALIO_CUSTOM"] = "rover_pipeline.evalio,evalio_drive"
sys.argv = ["evalio", *arguments]

from evalio.cli import app  # noqa: E402

app()
