"""What decides the bytes of a result besides data and options: sources and versions, compared between processes.

Provenance states the versions of the process that asks for a result. A worker of a Dask scheduler may have been
installed at another time, so it compares its own with them before it computes anything.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.util
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from rover_pipeline import __version__
from rover_pipeline.format.provenance import versions

_PACKAGE = "rover_pipeline"
#: Folders of Python and of installed packages, whose versions are compared and not their sources.
_INSTALLED = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
#: Begins the names of a user's modules in an identity.
MODULE = "module "
#: Has no say in bytes: it decides where work runs.
_SPREADS = "dask"


def identity(modules: Iterable[str] = ()) -> dict[str, str]:
    """Versions of Python and of libraries that decide bytes, and digests of this package's and of a user's sources.

    Args:
        modules: that hold a user's functions. Modules of this package among them are covered by its own digest.
    """
    own = {name: version for name, version in versions().items() if name != _SPREADS}
    own["rover-pipeline"] = f"{__version__} (sources {_digest_of_package()})"
    for name in sorted({module for module in modules if module.partition(".")[0] != _PACKAGE}):
        own[MODULE + name] = _digest_of_module(name)
    return own


def source_of(function: str | Callable[..., object]) -> str:
    """Digest of the code of a user's step: of its module and of those of the user that it imports, without comments.

    "" for a step of ours, whose version says when its bytes change, and for a function that is in no file.
    """
    digest = "" if isinstance(function, str) else _digest_of_module(function.__module__)
    return digest if digest.startswith("(sources") else ""


def difference(own: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """How one identity differs from another, as `numpy 2.3.0 instead of 2.4.6, ...`; empty where it does not.

    A library that only one of both has is no difference: the process without it fails when it needs it.
    """
    names = [name for name in wanted if name in own and wanted[name] != own[name]]
    return ", ".join(f"{name} {own[name]} instead of {wanted[name]}" for name in names)


@functools.cache
def _digest_of_package() -> str:
    folder = Path(__file__).parents[1]
    return _digest({path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")})


@functools.cache
def _digest_of_module(name: str) -> str:
    """Says which sources a module consists of: its own and those that it imports, as far as these are a user's too."""
    files: dict[str, Path] = {}
    left = [name]
    while "." in left[-1]:  # importing a.b.c runs a and a.b before
        left.append(left[-1].rpartition(".")[0])
    while left:
        module = left.pop()
        path = None if module in files else _source(module, name.partition(".")[0])
        if path is not None:
            files[module] = path
            left += _imports(path, module)
    return f"(sources {_digest(files)})" if name in files else "(not found)"


def _digest(files: Mapping[str, Path]) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for name in sorted(files):
        digest.update(f"{name} {_digest_of_file(files[name])}\n".encode())
    return digest.hexdigest()


@functools.cache
def _digest_of_file(path: Path) -> str:
    # Kept for the life of the process: a file that changes afterwards does not change what is imported already.
    content = path.read_bytes()
    if not path.is_relative_to(Path(__file__).parents[1]):  # comments and spaces of a user's code change no bytes
        with contextlib.suppress(SyntaxError, ValueError):
            content = ast.unparse(ast.parse(content)).encode()
    return hashlib.blake2b(content, digest_size=6).hexdigest()


@functools.cache
def _source(module: str, top: str) -> Path | None:
    """The source of a module of the package `top`, or of one that is not installed; None for others and non-modules."""
    try:
        package = importlib.util.find_spec(module.partition(".")[0])  # imports nothing, where that of a.b imports a
        if package is None or module.partition(".")[0] == _PACKAGE:
            return None
        places = [package.origin, *(package.submodule_search_locations or ())]
        installed = any(Path(place).is_relative_to(root) for place in places if place for root in _INSTALLED)
        if module.partition(".")[0] != top and (installed or package.origin in ("built-in", "frozen")):
            return None
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


@functools.cache
def _imports(path: Path, module: str) -> tuple[str, ...]:
    """Names of what a source imports, of which some may be no modules."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # it cannot be imported either
        return ()
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join(filter(None, [*parents[: len(parents) - node.level + 1], base]))
            found += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return tuple(found)
