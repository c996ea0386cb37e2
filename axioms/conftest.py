"""Makes `pytest axioms` check every theorem against its decisions, as `lrp-axioms prove` does."""

from pathlib import Path

import pytest

from lrp_axioms.axioms.evidence.evidence import pytest_runtest_call

__all__ = ["pytest_cmdline_main", "pytest_runtest_call"]


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Shares all theorems out to the cores where pytest-xdist is installed."""
    alone = [Path(path).resolve() for path in config.args] == [Path(__file__).parent]
    free = getattr(config.option, "numprocesses", 0) is None and not config.option.usepdb
    is_worker = hasattr(config, "workerinput")
    if alone and free and not (is_worker or config.option.collectonly):
        config.option.numprocesses = "auto"
