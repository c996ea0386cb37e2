"""A file of rules that cannot be judged is an error that names the line and the next step."""

import re
import subprocess

import pytest
from typer.testing import CliRunner

from axioms.own_rules.rules import RuleError
from benchmarks.cli import app
from benchmarks.commands.judging import judge_rules
from tests.support.rule_files import ENDLESS, HEAD, PRODUCT, conservation, written

RETURNED = """
(R for _ in 'xy') -> :2: mine returned <gen -> a list or tuple of 2
__import__('math').exp(x), R -> :4: mine raised TypeError -> math and NumPy take floats
__import__('numpy').sqrt(x), R -> :4: mine raised TypeError -> math and NumPy take floats
R * len([print(x)]), R -> :4: mine raised TypeError -> do not print
(R,) -> :2: mine returned 1 message -> return 2 messages
R / 2 -> :2: mine returned R/2 -> list or tuple of 2 messages
None -> :2: mine returned None -> tuple of 2 messages
'R', R -> :2: mine returned 'R' -> an expression or a number
x > y, R -> :2: mine returned -> an expression or a number
object(), R -> :2: mine returned -> an expression or a number
[R], R -> :2: mine returned [R] -> an expression or a number
sympy.zeros(2, 2), R -> :2: mine returned -> an expression or a number
R * sympy.Sum(alpha, (alpha, 1, 2)), 0 -> :2: mine returned -> no rational function
0.5 * R, R / 2 -> :2: mine returned 0.5*R -> write Rational(1, 2)
x ** (R / R / 2), R -> :2: mine returned -> no rational function
1 / 0, R -> :4: mine raised ZeroDivisionError -> mend the line
Rational(1, 2) * R, R -> :4: -> `from sympy import Rational`
sign(x) * R, R -> :4: -> `from lrp_axioms import sign`
sympy.sign(x) * R, R -> :2: mine returned -> sign(0) is 0
Piecewise((R, sympy.Contains(x, sympy.S.Integers)), (0, True)), 0 -> :2: mine -> use +
Rr, R -> :4: -> rule and sign are in lrp_axioms
R + [], R -> :4: mine raised TypeError -> mend the line
(R, 0) if x > 0 else (0, R) -> :4: mine raised TypeError -> sign(x)
(R, R) if isinstance(x, type(eps)) else (0, R) -> :2: mine returns -> one formula
(R * next(count), 0) -> :2: mine returns -> one formula
(R * randint(1, 10**9), 0) -> :2: mine returns -> one formula
alpha * R, R -> :2: mine returned R*alpha -> a number for
1j * R, R -> :2: mine returned -> relevance is real
R * (-R / R) ** (R / R / 3), R -> :2: mine returned -> relevance is real
R / 0, R -> :2: mine returned [zoo -> is undefined at
mine(x, y, z, R, eps) -> :4: mine raised Rec -> mend the
exit(0) -> :4: mine raised SystemExit -> mend the line
R * (z - x * y) / (z - x * y), 0 -> :2: mine returned [nan -> every point tried; look for a divisor
"""
COMPARED = """
z == 0 -> truth value of z == 0; the operands are symbols, so branch by sign(x)
x != 77 -> truth value of x != 77
77 in [x] -> truth value of x == 77
x in sympy.Tuple(77) -> truth value of (77,) contains x
sympy.Matrix([x]) == sympy.Matrix([77]) -> truth value of Matrix([[x]]) == Matrix([[77]])
sympy.Matrix([x - 77]).is_zero_matrix -> truth value of (Matrix([[x - 77]])).is_zero_matrix
sympy.Integer(77) == x -> truth value of 77 == x
x -> truth value of x;
{77: 1}.get(x) -> truth value of x as a key
eps == 0 -> truth value of epsilon == 0
(x - 77).is_zero -> truth value of (x - 77).is_zero
x.equals(77) -> truth value of (x).equals
x.is_positive -> truth value of (x).is_positive
x.is_Symbol -> truth value of (x).is_Symbol
x.is_number and x > 10**6 -> truth value of (x).is_number
eps.is_number and eps > 1 -> truth value of (epsilon).is_number
max(x, 0) == x -> truth value
[float(x) for _ in 'x'] == 1 -> truth value of x as a number; the operands are symbols, and math
str(x) == '77' -> do not print or format
f'{x}' == '77' -> do not print or format
x.name != 'x' -> truth value of (x).name
x.free_symbols -> truth value of (x).free_symbols
sympy.ask(sympy.Q.zero(x - 77)) -> truth value of Q.zero of x - 77
(x > 10**6) == True -> truth value of x > 1000000
sympy.And(x > 77, y > 77) -> truth value of
isinstance(z - 77, sympy.Integer) -> truth value of (z - 77).__class__
sympy.ask(sympy.AppliedPredicate(sympy.Q.zero, x)) -> truth value of Q.zero of x
"""
FILES = [  # source, place and step
    ('@rule("conv")\ndef f(x):\n    return x\n', ":2: ", "the kinds are"),
    ('@rule("product")\ndef f(x, y):\n    return x, y\n', ":2: f(x, y)",
        "write def f(x, y, z, R, eps)"),
    ('@rule("product")\ndef f(R, x, y, z, eps):\n    return R, R\n', ":2: f(R, x, y, z, eps)",
        "write def f(x, y, z, R, eps)"),
    ("half = Rational(1, 2)\n", ":2: NameError", "`from sympy import"),
    ('@rule("product")\ndef f(x, y, z, R, eps):\n'
     "    try:\n        k = float(x)\n    except TypeError:\n        k = 0\n    return R - k, k",
        ":2: f: cannot determine truth value of x as a number", "one formula"),
    ('@rule("product")\ndef f(x, y, z, R, eps):\n'
     "    try:\n        k = bool(x > 10**12)\n    except TypeError:\n        k = 0\n"
     "    return R - k, k",
        ":2: f: cannot determine truth value of x > 10000", "one formula"),
    ('@rule("linear")\ndef f(x, w, b, z, R, eps):\n'
     "    return [R if len(x) > 3 and x[0] == x[1] else R / len(x) for _ in x]",
        ":4: f raised", "truth value of x0 == x1"),
    ('@rule("linear")\ndef f(x, w, b, z, R, eps):\n'
     "    up = [Max(p * q, 0) for p, q in zip(x, w)]\n"
     "    return [u * R / sum(up) if sum(up) != 0 else 0 for u in up]",
        ":5: f raised", "truth value of Max(0, w0*x0) != 0"),
    ("import sys\nsys.exit(0)\n", ":3: SystemExit: 0", "by itself"),
    ('@rule("softmax")\ndef f(z, a, R, eps):\n'
     "    return [r * (sum(a) - 1) / (sum(a) ** 2 - 1) for r in R]",
        ":2: f returned [nan, nan, nan] and", "every point tried; look for a divisor that is alw"),
    ('@rule("bilinear")\ndef f(a, v, o, R, eps):\n    return [R, R, R]\n',
        ":2: f returned 3 messages", "return 2 groups of messages, one per factor"),
    ('@rule("bilinear")\ndef f(a, v, o, R, eps):\n    return [R], v\n',
        ":2: f returned 1 message;", "return 2 messages"),
    ("x = 1\n", "holds no rule", "from lrp_axioms import rule"),
    ("def f(:\n", ":2: ", "mend the line"),
    ("\nimport no_such_module\n", ":3: ModuleNotFoundError", "by itself"),
]  # fmt: skip
for row in RETURNED.strip().splitlines():
    formula, *said = row.split(" -> ")
    FILES.append((PRODUCT + formula, *said))
for row in COMPARED.strip().splitlines():
    condition, said = row.split(" -> ")
    FILES.append((PRODUCT + f"(R, R) if {condition} else (0, R)", ":4: ", said))


@pytest.mark.parametrize(("source", "place", "step"), FILES)
def test_a_malformed_rule_is_an_error_with_its_line_and_the_next_step(
    source, place, step, tmp_path
):
    path = written(tmp_path, HEAD + source)
    with pytest.raises(RuleError) as error:
        conservation(path)
    assert str(error.value).startswith(str(path))
    assert place in str(error.value)
    assert step in str(error.value)


@pytest.mark.parametrize("name", ["sympy.mine.py", "axioms.mine.py"])
def test_no_name_of_a_file_lets_it_compare_symbols(name, tmp_path):
    path = written(tmp_path, HEAD + PRODUCT + "(R, R) if z == 77 else (0, R)", name=name)
    with pytest.raises(RuleError, match="truth value of z == 77"):
        conservation(path)


LARGE = "R * reduce(lambda z, _: 1 / (1 + z * x), range(400), z), R\n"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("@rule('product')\ndef f(x): ...", r":1: NameError: name 'rule' is not defined; "),
        ("import os\nos._exit(0)\n", r": ended the process"),
        (f"from functools import reduce\n{HEAD}{PRODUCT}{LARGE}",
         r":3: mine: .*returns too much to judge"),
    ],
)  # fmt: skip
def test_a_file_that_gives_no_verdict_is_one_error(source, said, tmp_path):
    path = written(tmp_path, source)
    with pytest.raises(ValueError, match=rf"^{path}{said}") as error:
        list(judge_rules(path, 60))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("source", "said"), [
    ("import sys\nsys.exit(0)\n", ":3:SystemExit:0"),
    (f"{ENDLESS}\n", ": no verdict after 5 seconds; look for a loop without end"),
])  # fmt: skip
def test_the_command_ends_a_file_or_a_rule_and_says_where(source, said, tmp_path, monkeypatch):
    started, popen = [], subprocess.Popen

    def noted(*command, **options):
        started.append(popen(*command, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    path = written(tmp_path, HEAD + source)
    result = CliRunner().invoke(app, ["prove", str(path), "--limit", "5"])
    assert result.exit_code == 2
    squeezed = "".join(result.stderr.split())
    assert f"{path.name}{said}".replace(" ", "") in squeezed
    assert started
    assert all(process.poll() is not None for process in started)


def test_errors_are_told_together_once_all_other_rules_have_their_verdicts(tmp_path):
    good = PRODUCT + "R / 2, R / 2"
    bad = (PRODUCT + "'R', R", PRODUCT + "__import__('os')._exit(0)", PRODUCT + f"{ENDLESS}, R")
    rules = [x.replace("mine", f"rule_{n}") for n, x in enumerate((good, *bad, good))]
    verdicts = judge_rules(written(tmp_path, HEAD + "\n\n".join(rules)), 5)
    for name in ("rule_0", "rule_4"):
        assert next(verdicts).heading.startswith(f'{name}, a rule for "product"')
    with pytest.raises(ValueError, match="rule_1 returned 'R'") as error:
        next(verdicts)
    ended, endless = str(error.value).splitlines()[1:]
    assert "rule_2: ended the process" in ended
    assert re.search(r":\d+: rule_3: no verdict after 5 seconds; look for a loop", endless)
