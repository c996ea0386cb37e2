"""Models as the auditor takes them, and audits of a graph that was captured before."""

from functools import reduce
from unittest import mock

from axioms.composites import ATTNLRP
from numeric import audit
from numeric.auditing.capture import capture
from numeric.models.inputs import prepare
from tests.support import cases
from tests.support.changes import ACT, LAYER, on, then


def eager(name="bert", **options):
    """A family whose attention is spelled out, and its first example."""
    return cases.one_text(name, attn_implementation="eager", **options)


def behind(*steps):
    """Returns BERT as ``eager`` does, with ``steps`` behind its first activation."""
    model, inputs = eager()
    on(then(lambda x: reduce(lambda y, step: step(y), steps, x)), LAYER(0) + ACT)({"model": model})
    return model, inputs


def with_graph(model, inputs):
    return model, inputs, capture(model, prepare(model, inputs))


def audit_of(captured, composite=ATTNLRP, epsilon=0.0):
    """The audit of class 1 on a captured graph; capturing is most of an audit's time."""
    model, inputs, graph = captured
    with mock.patch("numeric.auditing.audit.capture", return_value=graph):
        return audit(model, inputs, composite, target=1, epsilon=epsilon)
