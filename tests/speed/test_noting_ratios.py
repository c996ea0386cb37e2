"""A test fails by the ratios it notes that got worse; `--update-baseline` replaces them."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.research.speed import conftest, machine, ratios
from benchmarks.research.speed.ratios import render
from tests.speed.test_ratios import kept, ratio

pytest_plugins = ["pytester"]

NOTING = """
def test_slow(ratios):
    ratios.note("slow", [1.2, 1.3, 1.25], group="time of LRP")
    ratios.note("big", [3.0], group="memory of LRP")

def test_ahead(ratios):
    ratios.note("ahead", [2.0], group="sweep", better="higher", goal=1.5)
"""


@pytest.fixture
def session(pytester):
    """Runs tests that note ratios, in a folder with a baseline of its own."""
    path = pytester.path / "baseline.json"
    path.write_text('{"ratios": {}}', "utf-8")

    def run(*options, noting=NOTING, baseline=None):
        if baseline is not None:
            ratios.write(path, baseline)
        pytester.makepyfile(noting)
        plugin = ("-p", conftest.__name__, "-p", "no:cacheprovider", f"--baseline={path}")
        return pytester.runpytest_inprocess(*plugin, *options), path

    return run


def test_ratios_unknown_to_the_baseline_pass_and_are_said(session):
    result, path = session()
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["ratio * now * baseline*", "slow *1.250*", "*baseline*slow; big; ahead"]
    )
    assert ratios.read(path) == {}


def test_a_test_fails_by_every_ratio_that_is_worse(session):
    old = ratio(1.0, name="slow"), ratio(1.0, name="big", group="memory of LRP")
    result, path = session(baseline=kept(*old))
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["slow: *25 % worse*", "big: *200 % worse*", "FAILED *test_slow*"])
    assert ratios.read(path) == kept(*old)


def test_the_baseline_is_replaced_name_by_name_and_the_page_with_it(session):
    other, old = ratio(1.0, name="other"), ratio(1.0, name="slow")
    result, path = session("--update-baseline", baseline=kept(other, old))
    result.assert_outcomes(passed=2)
    found = ratios.read(path)
    assert set(found) == {"other", "slow", "big", "ahead"}
    assert found["other"] == kept(other)["other"]
    assert found["slow"] == replace(ratio(1.2, 1.3, 1.25, name="slow"), where=machine.here())
    assert (path.parent / "RESULTS.md").read_text("utf-8") == render(found)


def test_a_failing_test_fails_by_itself_and_not_by_its_ratio(session):
    noting = NOTING.replace("def test_ahead", "    assert 1 == 2\n\ndef test_ahead")
    result, _ = session(noting=noting, baseline=kept(ratio(1.0, name="slow")))
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*assert 1 == 2*"])
    result.stdout.no_fnmatch_line("*mend it*")


def test_a_name_noted_twice_is_refused(session):
    result, _ = session(noting=NOTING.replace('"big"', '"slow"'))
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*ratio 'slow' is noted twice*"])


def test_an_ordinary_run_keeps_no_ratio_but_checks_it(session):
    result, _ = session("--benchmark-disable", baseline=kept(ratio(1.0, name="slow")))
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*ratios of time and memory*")
    result, _ = session("--benchmark-disable", noting=NOTING.replace("3.0", "-3.0"))
    result.assert_outcomes(passed=1, failed=1)


def test_a_baseline_cannot_be_updated_by_a_run_that_measures_nothing(session):
    result, path = session("--benchmark-disable", "--update-baseline")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*make baseline*"])
    assert ratios.read(path) == {}


def test_what_a_failed_test_noted_is_not_kept(session):
    noting = NOTING.replace("def test_ahead", "    assert 1 == 2\n\ndef test_ahead")
    old = kept(ratio(1.0, name="slow"))
    _, path = session("--update-baseline", noting=noting, baseline=old)
    found = ratios.read(path)
    assert found["slow"] == old["slow"]
    assert set(found) == {"slow", "ahead"}


def test_a_broken_baseline_is_one_message(session):
    _, path = session()
    path.write_text("no", "utf-8")
    result, _ = session()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*baseline.json is no baseline*"])
    result.stderr.no_fnmatch_line("*INTERNALERROR*")


def test_make_names_the_folder_whose_options_it_passes():
    """pytest knows the options of a conftest only where its folder is named."""
    recipes = (Path(__file__).parents[2] / "Makefile").read_text("utf-8")
    for target in ("bench", "baseline"):
        (folder,) = re.findall(rf"^{target}:.*\n\t\S+ -m pytest (\S+) --benchmark", recipes, re.M)
        assert Path(conftest.__file__).parent.samefile(Path(__file__).parents[2] / folder)
