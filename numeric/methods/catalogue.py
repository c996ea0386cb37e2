"""The attribution methods by name: requirements, promises, sources.

Functions are imported when they first run, so that a command can list the methods at once.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

from lrp_axioms.axioms.composites import ATTNLRP, CP_LRP, GRADIENT_X_INPUT, Composite

LRP = "lrp_axioms.numeric.methods.lrp:lrp"
ONE_PASS = "1 forward and 1 backward pass"
BY_RULES = "a rule for every operation"


@dataclass(frozen=True, kw_only=True)
class Method:
    """An attribution method, as ``attribute``, the command line and the documentation know it.

    label: its name in tables and figures
    home: module and function, (model, batch, readout, options) -> one Found for every target
    needs: requirements of a model or a text
    cost: passes through the model, for one text
    conserves: whether relevance adds up to the logit, or to another number
    composite: the rules of a method by rules; None for any other method
    defaults: options whose default differs from the function's
    """

    name: str
    label: str
    home: str
    needs: str
    cost: str
    conserves: str
    source: str
    composite: Composite | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def run(self) -> Callable[..., Any]:
        """The function, with the rules bound to it."""
        module, _, name = self.home.partition(":")
        found: Callable[..., Any] = getattr(import_module(module), name)
        return found if self.composite is None else partial(found, composite=self.composite)

    @property
    def conservation(self) -> str:
        """Writes ``conserves`` as the predicate of a sentence about the method."""
        if self.conserves.startswith("no"):
            return "does not conserve relevance" + self.conserves.removeprefix("no")
        said = self.conserves.removeprefix("yes").replace(", but ", ", except where ")
        return "conserves relevance" + said

    @property
    def options(self) -> dict[str, Any]:
        """Name and default of every option."""
        function = getattr(self.run, "func", self.run)
        parameters = inspect.signature(function).parameters.values()
        named = {x.name: x.default for x in parameters if x.kind is x.KEYWORD_ONLY}
        named.pop("composite", None)
        return {**named, **self.defaults}


def by_rules(composite: Composite) -> Method:
    """Returns LRP by a user's own rules."""
    return Method(
        name=composite.name,
        label=composite.name,
        home=LRP,
        composite=composite,
        needs=BY_RULES,
        cost=ONE_PASS,
        conserves="depends on its rules (`lrp_axioms.audit`)",
        source="your own rules",
    )


METHODS: dict[str, Method] = {
    each.name: each
    for each in (
        Method(
            name="attnlrp",
            label="AttnLRP",
            home=LRP,
            composite=ATTNLRP,
            needs=BY_RULES,
            cost=ONE_PASS,
            conserves="no: softmaxes, biases, shifts of norms and values at 0 absorb relevance",
            source="Achtibat et al. 2024, arXiv 2402.05602",
        ),
        Method(
            name="cp-lrp",
            label="CP-LRP",
            home=LRP,
            composite=CP_LRP,
            needs=BY_RULES,
            cost=ONE_PASS,
            conserves="yes, but biases, shifts of norms and values at 0 absorb relevance",
            source="Ali et al. 2022, arXiv 2202.07304",
        ),
        Method(
            name="gradient-x-input",
            label="gradient × input",
            home=LRP,
            composite=GRADIENT_X_INPUT,
            defaults={"share": "word"},
            needs=BY_RULES,
            cost=ONE_PASS,
            conserves="no",
            source="Shrikumar et al. 2016, arXiv 1605.01713",
        ),
        Method(
            name="gim",
            label="GIM",
            home="lrp_axioms.numeric.methods.gim:gim",
            needs=BY_RULES,
            cost=ONE_PASS,
            conserves="no",
            source="Edin et al. 2025, arXiv 2505.17630",
        ),
        Method(
            name="mask-relevance",
            label="mask relevance",
            home="lrp_axioms.numeric.methods.mask_relevance:mask_relevance",
            needs="attention by softmax from tokens to tokens, and nothing else between these",
            cost=ONE_PASS,
            conserves="no: each estimates the change of the logit without one token",
            source="theorems 54 and 55 of this project",
        ),
        Method(
            name="atman",
            label="AtMan",
            home="lrp_axioms.numeric.methods.atman:atman",
            needs="attention by softmax from tokens to tokens",
            cost="1 forward pass per token, and 1 of the whole text",
            conserves="no: each is the change of the logit with the token's scores suppressed",
            source="Deiseroth et al. 2023, arXiv 2301.08110",
        ),
        Method(
            name="integrated-gradients",
            label="IG",
            home="lrp_axioms.numeric.methods.integrated_gradients:integrated_gradients",
            needs="embeddings in place of ids",
            cost="32 forward and backward passes (option steps)",
            conserves="yes, to the logit minus the baseline's, up to the completeness gap",
            source="Sundararajan et al. 2017, arXiv 1703.01365",
        ),
        Method(
            name="attention-rollout",
            label="rollout",
            home="lrp_axioms.numeric.methods.rollout:attention_rollout",
            needs="square attention weights of every layer",
            cost="1 forward pass",
            conserves="no: shares of attention, which are not logits and add up to 1",
            source="Abnar and Zuidema 2020, arXiv 2005.00928",
        ),
        Method(
            name="loo",
            label="LOO",
            home="lrp_axioms.numeric.methods.loo:leave_one_out",
            needs="two tokens or more",
            cost="1 forward pass per token, and 1 of the whole text",
            conserves="no: each is the change of the logit without one token",
            source="Li et al. 2016, arXiv 1612.08220",
        ),
        Method(
            name="budgeted-loo",
            label="budgeted LOO",
            home="lrp_axioms.numeric.methods.budgeted_loo:budgeted_loo",
            needs="two tokens or more, and what mask relevance needs",
            cost="2 forward passes, 1 backward pass, and 1 forward pass for each of 4 tokens "
            "(option budget)",
            conserves="no: each is the change of the logit without one token, or estimates it",
            source="this project, after Li et al. 2016",
        ),
        Method(
            name="shapley",
            label="Shapley",
            home="lrp_axioms.numeric.methods.shapley:shapley",
            needs="two tokens or more",
            cost="1 forward pass for each subset of the tokens after the first, and 4096 if these "
            "are more than 12 (option samples)",
            conserves="yes: it adds up to the logit minus the logit with the first token alone",
            source="Lundberg and Lee 2017, arXiv 1705.07874",
        ),
    )
}

WITH_RULES = tuple(each.name for each in METHODS.values() if each.composite)
WITH_LEMMAS = tuple(x for x in WITH_RULES if x != "gradient-x-input")  # these can be audited
WITH_IMAGES = ("loo",)  # and without rules: these explain an image that comes with a text


def table(methods: Mapping[str, Method] = METHODS) -> str:
    """Writes the methods as a table of Markdown, for the documentation."""
    columns = ("name", "cost", "conserves", "needs", "source")
    rows = [columns, ["---"] * len(columns)]
    rows += [[getattr(each, key) for key in columns] for each in methods.values()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
