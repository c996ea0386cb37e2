"""The rules of a Python file, which is run with the rights of whoever judges it."""

import importlib.util
import traceback
from importlib.machinery import ModuleSpec
from pathlib import Path

from axioms import kinds
from axioms.own_rules.rules import ARGUMENTS, Rule, RuleError, next_step


def load(path: str | Path) -> list[Rule]:
    """The rules of a Python file, in their order; the file is run.

    Raises RuleError with the line if the file cannot be run, and if it holds no rule.
    """
    path = Path(path)
    if not path.is_file():
        raise RuleError(f"{path}: there is no such file; pass a Python file that holds rules")
    spec = ModuleSpec(path.stem, loader=None, origin=str(path))
    module = importlib.util.module_from_spec(spec)
    try:
        code = compile(path.read_bytes(), str(path), "exec")
        exec(code, vars(module))
    except RuleError:
        raise
    except SyntaxError as error:
        raise RuleError(f"{path}:{error.lineno}: {error.msg}; mend the line") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit among them
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        place = f"{path}:{lines[-1]}" if lines else path
        raise RuleError(
            f"{place}: {type(error).__name__}: {error}; "
            f"{next_step(error, otherwise='the file must run by itself')}"
        ) from error
    rules = [value for value in vars(module).values() if isinstance(value, Rule)]
    if not rules:
        raise RuleError(
            f'{path}: holds no rule; put @rule("product") above a function '
            f"({ARGUMENTS[kinds.PRODUCT]}), with `from axioms.own_rules import rule`"
        )
    return rules
