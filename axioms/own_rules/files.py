"""Loads the rules of a Python file, and runs the file with the rights of the user."""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.own_rules.operations import OPERATIONS
from lrp_axioms.axioms.own_rules.rules import Rule, RuleError, raised


def load(path: str | Path) -> list[Rule]:
    """The rules of a Python file, in their order; the file is run.

    Raises RuleError with the line if the file cannot be run, and if it holds no rule.
    """
    path = Path(path)
    if not path.is_file():
        raise RuleError(f"{path}: there is no such file; pass a Python file that holds rules")
    name = str(path.absolute())  # no import has such a name, not even of a file without a suffix
    module = importlib.util.module_from_spec(ModuleSpec(name, loader=None, origin=str(path)))
    sys.modules[name] = module  # dataclasses look it up
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    except SyntaxError as error:
        raise RuleError(f"{path}:{error.lineno}: {error.msg}; mend the line") from error
    except (KeyboardInterrupt, RuleError):
        raise
    except BaseException as error:  # sys.exit among them
        raise raised(error, str(path), otherwise="the file must run by itself") from error
    rules = [value for value in vars(module).values() if isinstance(value, Rule)]
    if not rules:
        raise RuleError(
            f'{path}: holds no rule; put @rule("product") above a function '
            f"({OPERATIONS[kinds.PRODUCT].arguments}), with `from lrp_axioms import rule`"
        )
    return rules
