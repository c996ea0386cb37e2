"""`pytest axioms` holds every theorem to what its test decided, as `lrp-axioms prove` does."""

from axioms.evidence.evidence import pytest_runtest_call

__all__ = ["pytest_runtest_call"]
