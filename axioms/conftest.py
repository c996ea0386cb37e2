"""Makes `pytest axioms` check every theorem against its decisions, as `lrp-axioms prove` does."""

import gc

from lrp_axioms.axioms.evidence.evidence import pytest_runtest_call

__all__ = ["pytest_runtest_call"]
gc.set_threshold(50_000, 20, 50)  # formulas hold few cycles: that saves a tenth of the time
