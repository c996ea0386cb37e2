"""The explanation of a similarity: relevance of the tokens of two texts, and of their pairs."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

from torch import Tensor
from torch.nn.functional import pad
from transformers import PreTrainedTokenizerBase

from lrp_axioms.numeric.results import render
from lrp_axioms.numeric.results.render import LayerMap
from lrp_axioms.numeric.results.result import Attribution, section
from lrp_axioms.numeric.results.spelled import readable
from lrp_axioms.numeric.spelling import printable


@dataclass(frozen=True, eq=False, repr=False)  # tensors have no one truth value
class Similarity(Attribution):
    """Relevance of the tokens of two texts for their similarity; each row holds the other text.

    Both rows have the similarity as ``logit``, and ``options`` its measure and the pooling.
    """

    def __repr__(self) -> str:
        a, b = (len(self.lines(n)) for n in (0, 1))
        said = f"{self.options['measure']} {self.similarity:+z.4f}, {a} and {b} tokens"
        return f"Similarity({self.method}: {said})"

    def about(self, sample: int) -> str:
        measure, text = self.options["measure"], "ab"[sample]
        logit, residual = self.logit[sample], self.residual[sample]
        return f"{text}: {measure} {logit:+z.4f}, residual {residual:+z.4f}"

    @classmethod
    def load(cls, path: str | Path) -> Attribution:
        """Reads a file of ``save``.  Raises ValueError for any other file."""
        found = super().load(path)
        if "measure" not in found.options or len(found.relevance) != 2:
            raise ValueError(f"{path} holds no similarity; call Attribution.load")
        return found

    @property
    def similarity(self) -> float:
        return float(self.logit[0])

    @property
    def pairs(self) -> Tensor | None:
        """Relevance of pairs, (token of a, token of b), or None."""
        return self.details.get("pairs")

    @property
    def table(self) -> Tensor:
        """The pairs, and behind them the absorbed parts: (token of a + 1, token of b + 1).

        Rows add up to relevance and residual of a, columns to b's, all of it to the similarity
        (theorem 78).  Raises ValueError without pairs.
        """
        if self.pairs is None:
            raise ValueError("pairs are not known: call explain_similarity() with pairs=True")
        (a, b), found = self.pairs.shape, pad(self.pairs, (0, 1, 0, 1))
        found[:a, b] = self.relevance[0, :a] - self.pairs.sum(dim=1)
        found[a, :b] = self.relevance[1, :b] - self.pairs.sum(dim=0)
        found[a, b] = self.logit[0] - found.sum()
        return found

    def by(self, unit: str, tokenizer: PreTrainedTokenizerBase) -> Self:
        """Sums relevance of tokens and pairs to words or sentences, as ``Attribution.by`` does."""
        found = super().by(unit, tokenizer)
        if self.pairs is None:
            return found
        numbers, (of_a, of_b) = self._units(unit, tokenizer)
        (a, b), rows = self.pairs.shape, self.pairs.new_zeros(len(of_a), self.pairs.shape[1])
        rows = rows.index_add(0, numbers[0, :a], self.pairs)
        pairs = rows.new_zeros(len(of_a), len(of_b)).index_add(1, numbers[1, :b], rows)
        return replace(found, details={"pairs": pairs})

    def sections(self) -> list[render.Section]:
        """Makes a section of each text; the pairs stand below the second."""
        names = (readable([x for _, x, _ in self.lines(n) if x is not None]) for n in (0, 1))
        a, b = ((*map(printable, row), "(absorbed)") for row in names)
        maps = []
        if self.details:
            maps.append(_Pairs("", b, a, self.table.cpu().double().numpy(force=True)))
        why = "a is similar to b", "b is similar to a"
        return [section(self, n, why=why[n], maps=maps * n) for n in (0, 1)]


class _Pairs(LayerMap):
    """A map of pairs, all by one scale."""

    heading: ClassVar[str] = "Pairs of tokens"
    legend: ClassVar[str] = (
        "Rows: tokens of text a; columns: tokens of text b; one scale for all. (absorbed): what no "
        "token of the other text takes of a token's relevance; the last line adds up columns."
    )
    axis: ClassVar[int | None] = None
