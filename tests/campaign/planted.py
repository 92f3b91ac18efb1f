"""Files of others that a process could take for its own code or settings, in a folder in which it works."""

from __future__ import annotations

from pathlib import Path

#: Modules that the package, Snakemake, Dask and Python itself import, or try to import.
MODULES = ("rover_pipeline", "snakemake", "yaml", "numpy", "dask", "sitecustomize", "usercustomize", "sqlite3", "zlib")
#: Folders in which a process works, or keeps notes, below the one that others made.
PLACES = ("", ".rover-pipeline", ".snakemake/pip-deployments", "profiles")


def plant(folder: Path, ran: Path) -> None:
    """Put code and settings into a folder, each of which adds a line to the file `ran` when it is run."""

    def code(name: str) -> str:
        return f"open({str(ran)!r}, 'a').write({name + chr(10)!r})\n"

    def put(place: Path, text: str) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    for place in PLACES:
        here = folder / place
        for name in MODULES:
            told = f"{place}/{name}"
            put(here / f"{name}.py", code(told))
            put(here / name / "__init__.py", code(told))
            put(here / name / "__main__.py", code(told))
        put(here / "evil.pth", f"import os; {code(place + '/pth')}")
        evaluated = f"__import__('os').system('echo {place}/profile >> {ran}')"
        resources = f'default-resources: ["mem_mb={evaluated}"]\nset-threads: ["imu_filtered={evaluated}"]\n'
        for profile in ("profiles/default", "default", "local", "profiles/local"):
            put(here / profile / "config.yaml", resources + f'executor: evil\nconfig: ["outputs={evaluated}"]\n')
        # Settings of libraries that look into the current folder.
        put(here / ".numba_config.yaml", f"cache_dir: {folder}/evil\ndisable_jit: 1\n")
        put(here / "matplotlibrc", "backend: module://yaml\n")
        put(here / "Snakefile", code(place + "/Snakefile"))
        put(here / "config.yaml.py", code("config"))
    pickled = f"cos\nsystem\n(S'echo iocache >> {ran}'\ntR."
    put(folder / ".snakemake/iocache/latest.pkl", pickled)
    put(folder / ".rover-pipeline/.snakemake/iocache/latest.pkl", pickled)


def ran(place: Path) -> list[str]:
    """What was run of all that was planted."""
    return place.read_text().splitlines() if place.exists() else []
