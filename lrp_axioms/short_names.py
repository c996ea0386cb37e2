"""Makes ``axioms``, ``numeric`` and ``benchmarks`` of a checkout the modules of ``lrp_axioms``.

Without this, a module that is imported by both of its names would be loaded twice.
"""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec

shared: set[str] = set()


def share(layer: str) -> None:
    """Makes the short name of a layer, and of every module in it, a name of the same module."""
    sys.modules[layer] = import_module(f"lrp_axioms.{layer}")
    shared.add(layer)
    if ShortNames not in sys.meta_path:
        sys.meta_path.insert(0, ShortNames)  # type: ignore[arg-type]


class ShortNames:
    """Finds and loads the modules of shared layers by their short names."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        layer, dot, _ = name.partition(".")
        found = find_spec(f"lrp_axioms.{name}") if dot and layer in shared else None
        return found and ModuleSpec(name, cls, origin=found.origin)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec):  # type: ignore[no-untyped-def]
        module = import_module(f"lrp_axioms.{spec.name}")
        spec.loader_state = module.__spec__  # importing replaces it
        return module

    @staticmethod
    def exec_module(module) -> None:  # type: ignore[no-untyped-def]
        module.__spec__ = module.__spec__.loader_state

    @staticmethod
    def get_code(name: str) -> object:
        """For ``python -m``."""
        return find_spec(f"lrp_axioms.{name}").loader.get_code(f"lrp_axioms.{name}")  # type: ignore[union-attr]
