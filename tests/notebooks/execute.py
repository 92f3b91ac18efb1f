"""Runs a notebook from its first to its last cell: `python -m tests.notebooks.execute NOTEBOOK FOLDER [PYTHON]`.

The notebook is written back with what it showed, so that it can be read where it is not run.
"""

from __future__ import annotations

import json
import os
import site
import sys
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from tests.conftest import CHECKOUT

NOTEBOOKS = CHECKOUT / "notebooks"
_MOST_S = 1500


def execute(notebook: Path, folder: Path, python: Path = Path(sys.executable)) -> nbformat.NotebookNode:
    """The notebook with its outputs, run in `folder`, where it finds or makes its recordings.

    Args:
        python: the interpreter of its kernel. Libraries that this one does not have are those of ours.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
    """
    # The virtual environment of another program need not have our libraries a second time.
    paths = [str(CHECKOUT), *(site.getsitepackages() if python != Path(sys.executable) else [])]
    programs = str(Path(sys.executable).parent)
    spec = {
        "argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "notebook",
        "language": "python",
        "env": {
            "PYTHONPATH": os.pathsep.join(paths),
            "PATH": os.pathsep.join([programs, os.environ.get("PATH", "")]),
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        },
    }
    kernels = folder / ".kernels"
    (kernels / "notebook").mkdir(parents=True)
    (kernels / "notebook" / "kernel.json").write_text(json.dumps(spec))
    manager = AsyncKernelManager(
        kernel_name="notebook", kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(kernels)])
    )
    content = nbformat.read(notebook, as_version=4)
    client = NotebookClient(content, km=manager, timeout=_MOST_S, resources={"metadata": {"path": str(folder)}})
    return client.execute()


def pictures(notebook: nbformat.NotebookNode) -> int:
    """Number of pictures that it shows."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return sum("image/png" in output.get("data", {}) for output in outputs)


def printed(notebook: nbformat.NotebookNode) -> str:
    """All that it printed."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "".join(output.get("text", "") for output in outputs if output.get("name") == "stdout")


if __name__ == "__main__":
    path, folder = Path(sys.argv[1]), Path(sys.argv[2])
    interpreter = Path(sys.argv[3]) if len(sys.argv) > 3 else Path(sys.executable)
    nbformat.write(execute(path, folder, interpreter), path)
