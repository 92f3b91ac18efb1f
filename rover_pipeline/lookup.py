"""Late loading: what a dotted name stands for, imported when it is first needed.

The workflow reads what steps declare for every job, and must not pay for the libraries that only their functions need.
This is the one place that imports by name.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import importlib.util
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, Protocol, TypeVar

from rover_pipeline.errors import ConfigError, MissingExtraError, RoverError, did_you_mean, one_line, short, short_text


class Named(Protocol):
    """A declaration that knows what it is called."""

    @property
    def name(self) -> str:
        """The name that users type."""


Declared = TypeVar("Declared", bound=Named)


class Registry(Mapping[str, Declared]):
    """Declarations of one kind by name: ours, and those that installed packages add by entry points.

    An entry point is looked for only where a name is not one of ours, because that reads the metadata of all packages.
    Each in the `group` is called like the declaration that it stands for, of a class `kind`. None replaces our `own`.
    """

    def __init__(self, group: str, kind: type[Declared], own: Iterable[Declared]) -> None:
        self.group, self._kind = group, kind
        self.own = {each.name: each for each in own}

    def __getitem__(self, name: str) -> Declared:
        """Raises KeyError, and ConfigError where the package that adds it is broken, or where several add it."""
        if name in self.own:
            return self.own[name]
        first, *others = self._entries()[name]
        if others:
            packages = ", ".join(sorted(_package(each) for each in (first, *others)))
            raise ConfigError(f"{name}: several installed packages add it: {packages}; uninstall all but one")
        return self._load(first)

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self._entries()

    def __iter__(self) -> Iterator[str]:
        return iter({**self.own, **self._entries()})

    def __len__(self) -> int:
        return len({**self.own, **self._entries()})

    def _entries(self) -> dict[str, list[Any]]:
        """The entry points of installed packages by name. A package that is found twice on the path counts once."""
        metadata = importlib.import_module("importlib.metadata")  # few commands need it
        found: dict[str, dict[tuple[str, str], Any]] = {}
        for each in metadata.entry_points(group=self.group):
            found.setdefault(each.name, {}).setdefault((_package(each), each.value), each)
        return {name: list(entries.values()) for name, entries in found.items()}

    def _load(self, entry: Any) -> Declared:
        where = f"{entry.name}: the package {_package(entry)} adds it by {entry.value}, which"
        remedy = "correct or update the package, or uninstall it"
        try:
            found = entry.load()
        except Exception as error:  # the package may run any code
            raise ConfigError(
                f"{where} cannot be loaded: {type(error).__name__} {one_line(str(error))[:200]}; {remedy}"
            ) from error
        if not isinstance(found, self._kind):
            raise ConfigError(f"{where} is a {type(found).__name__} and no {self._kind.__name__}; {remedy}")
        if found.name != entry.name:
            raise ConfigError(f"{where} is called {short(found.name)}; {remedy}")
        return found


def _package(entry: Any) -> str:
    """Name and version of the package that an entry point is from."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "a package without a name"


def load(name: str) -> Any:
    """The object of a dotted name, `package.module:attribute`, of this package."""
    module_name, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module_name), attribute)


def optional(module: str, purpose: str, extra: str) -> Any:
    """An optional library. Raises MissingExtraError, which names the extra that has it, where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(purpose, extra) from error


def load_marked(name: str, mark: str) -> Any:
    """What the attribute `mark` of a user's function holds, by the dotted name of the function,
    `package.module:function`. Raises ConfigError where there is no such module, or no function with that mark in it."""
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute or "none")):
        raise ConfigError(f"step {short(name)}: must be MODULE:FUNCTION, or the name of a virtual sensor")
    try:
        module = importlib.import_module(module_name)
    except RoverError:
        raise
    except Exception as error:  # the module may run any code
        what = f"{module_name} cannot be imported: {type(error).__name__}: {short_text(error, 200)}"
        if isinstance(error, ModuleNotFoundError) and module_name.startswith(error.name or module_name):
            what = f"no module {module_name!r}; is it installed, or its folder on PYTHONPATH?"
        raise ConfigError(f"step {name}: {what}") from error
    marked = {key: getattr(value, mark) for key, value in vars(module).items() if hasattr(value, mark)}
    if attribute not in marked:
        hint = did_you_mean(attribute, marked) if marked else "it has no function with @step"
        raise ConfigError(f"step {name}: {module_name} has no step {attribute!r}; {hint}")
    return marked[attribute]


def stop_collector() -> None:
    """Stop the garbage collector until `start_collector` is called.

    Imports make many objects and no garbage. The collector would take a third of a short step's time to look for some
    among them, and once more when the process ends. What is left in cycles at the end goes with the process.
    """
    gc.disable()
    atexit.register(gc.freeze)


def start_collector() -> None:
    """Start it where it was stopped while modules were loaded; what is there by now is no garbage."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


class LateModule(ModuleType):
    """An installed module that is imported when something of it is used, and not where it is named, or where something
    is asked for being of one of its `classes`."""

    def __init__(self, name: str, classes: Collection[str] = ()) -> None:
        super().__init__(name)
        self._classes = classes
        self.__spec__ = importlib.util.find_spec(name)
        if self.__spec__:
            sys.modules.setdefault(name, self)

    def __getattr__(self, name: str) -> Any:
        if name in self._classes and sys.modules.get(self.__name__) is self:
            return _LateClass(self, name)
        return getattr(self._loaded(), name)

    def _loaded(self) -> ModuleType:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return importlib.import_module(self.__name__)


class _LateClass:
    """A class of a module that is not imported, so that nothing is of it. All else that is asked of it imports it."""

    def __init__(self, module: LateModule, name: str) -> None:
        self._module, self._name = module, name

    def __instancecheck__(self, value: object) -> bool:
        return sys.modules.get(self._module.__name__) is not self._module and isinstance(value, self._loaded())

    def __call__(self, *values: Any, **named: Any) -> Any:
        return self._loaded()(*values, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loaded(), name)

    def _loaded(self) -> Any:
        return getattr(self._module._loaded(), self._name)


class LateCalls(LateModule):
    """The same of a module of which another one takes functions and classes while it is imported itself."""

    def __init__(self, name: str) -> None:
        ModuleType.__init__(self, name)
        sys.modules.setdefault(name, self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *values, **named: getattr(self._loaded(), name)(*values, **named)
