"""Makes `pytest axioms` check every theorem against its decisions, as `lrp-axioms prove` does."""

from lrp_axioms.axioms.evidence.evidence import pytest_runtest_call

__all__ = ["pytest_runtest_call"]
