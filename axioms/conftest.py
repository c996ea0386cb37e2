"""Makes `pytest axioms` check every theorem against its decisions, as `lrp-axioms prove` does."""

from axioms.evidence.evidence import pytest_runtest_call

__all__ = ["pytest_runtest_call"]
