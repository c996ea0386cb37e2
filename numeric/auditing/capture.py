"""A stock model as a computation graph: which operations its code performs on this input."""

import hashlib
import io
import logging
import re
import traceback
from collections.abc import Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from itertools import count
from threading import RLock

import torch
from torch import Tensor, fx, nn
from transformers import PreTrainedModel

from axioms import kinds
from axioms.graph import INPUT, PARAMETER, Node, Origin, topological
from numeric.auditing import recognition
from numeric.auditing.operations import (
    FUSED,
    ITEM,
    LEAVES,
    OPERATIONS,
    WITHOUT_VALUE,
    is_carrying,
)
from numeric.fast import patches

LAYER = re.compile(r"(?:^|\.)(?:\w*layers?|h|blocks?)\.(\d+)(?=\.|$)")
ONE_AT_A_TIME = RLock()  # torch.export keeps state of its own
ROLES = {"position": r"position|wpe", "token type": r"token_type", "word": ""}
"""What a leaf is, by the first pattern that its place in the model matches."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Capture:
    """A graph whose root is the logits, (example, class), with the values of its leaves.

    values: of every leaf, on the CPU, as a tensor of the model or one computed from fixed numbers
    signatures: by layer, the digest of its operations and how they are connected; sizes and
        fixed numbers are not in it, so that a toy has that of a real model
    """

    root: Node
    values: Mapping[Node, object]
    signatures: Mapping[int | None, str]

    @property
    def order(self) -> list[Node]:
        return topological(self.root)


def capture(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> Capture:
    """The graph of ``model`` for inputs of this shape; the model is left as it was.

    Attention is spelled out there, whatever implementation the model is set to.
    Raises ValueError for code that fuses attention itself, code that torch.export cannot follow,
    and operations outside the closed table, all of them listed with their places.
    """
    program = _export(model, inputs)
    builder = _Builder(program)
    root = builder.logits(program, inputs)
    if builder.problems:
        raise ValueError(_explain(builder.problems))
    root = recognition.recognise(root, builder.values)
    alien = [f"{node.op} at {_place(node.origin)}" for node in recognition.unknown(root)]
    if alien:
        raise ValueError(_explain(alien))
    leaves = {node for node in topological(root) if node.op in (INPUT, PARAMETER)}
    values = {node: value.cpu() for node, value in builder.values.items() if node in leaves}
    return Capture(root=root, values=values, signatures=builder.signatures())


class _Logits(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, **inputs):
        return self.model(**inputs).logits


def _export(model, inputs):
    model = patches.twin(model)  # because torch.export changes what it is given
    # A cache is no tensor, and nobody reads it here.
    patches.set_everywhere(model.modules(), "use_cache", value=False)
    # Inside fused attention no rule could be seen; spelled out it computes the same.
    patches.attention_implementation(model.modules(), "eager")
    try:
        with (
            ONE_AT_A_TIME,
            torch.no_grad(),
            _silent(),
            torch.autocast(model.device.type, enabled=False),
        ):
            return torch.export.export(_Logits(model).eval(), (), dict(inputs), strict=False)
    except Exception as error:  # torch.export raises what the model's own code makes it raise
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(
            f"{type(model).__name__} cannot be captured by torch.export{_where(error)} ({reason}): "
            "code whose path depends on the values of its input has no one graph; choose a "
            "configuration without that branch, or write it without `if`"
        ) from error


@contextmanager
def _silent():
    """Without torch's own account of a failure, pages of it; the error that is raised says it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def _where(error):
    """The last line of a model's code that the error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    files = [(f.filename, f.lineno) for f in frames if _is_own(f.filename)]
    file, line = files[-1]
    return "" if file == __file__ else f" at {file.rsplit('/', 1)[-1]}:{line}"


@dataclass
class _Make:
    """Builds nodes of one operation; operands that are no nodes become parameters."""

    node: fx.Node
    values: dict
    names: Mapping[int, str]
    origin: Origin
    layer: int | None
    shape: tuple[int, ...]
    numbers: count = field(default_factory=lambda: count(1))

    def __call__(self, op, *operands, tokens=False, **attributes):
        operands = tuple(self._operand(x, op, learned_tokens=tokens) for x in operands)
        shape = self._shape(operands, attributes)
        about = {"layer": self.layer, "shape": shape} | attributes
        return Node(op, operands, self.node.name, self.origin, about)

    def _shape(self, operands, attributes):
        if attributes.get("move") == "index":  # of a split, each part has a shape of its own
            whole = torch.empty(operands[0].attributes["shape"], device="meta")
            return tuple(whole[attributes["arguments"][0]].shape)
        return self.shape

    def _operand(self, x, op, *, learned_tokens):
        if is_carrying(x):
            return x
        x = x.detach() if torch.is_tensor(x) else torch.tensor(x, dtype=torch.float64, device="cpu")
        name = self.names.get(x.data_ptr()) or f"{self.node.name}, operand {next(self.numbers)}"
        role = next(role for role, pattern in ROLES.items() if re.search(pattern, name))
        # What is added to an embedding, or set before it as a token, has relevance of its own.
        is_input = learned_tokens or (op == kinds.ADD and role != "word")
        about = {"role": role, "shape": tuple(x.shape)}
        leaf = Node(INPUT if is_input else PARAMETER, (), name, self.origin, about)
        self.values[leaf] = x
        return leaf


class _Builder(fx.Interpreter):
    """Runs what does not depend on the input, and makes nodes of what does."""

    def __init__(self, program):
        super().__init__(program.graph_module)
        tensors = {**program.constants, **program.state_dict}
        # by address, because a transposed weight is still that weight
        self.names = {x.data_ptr(): name.removeprefix("model.") for name, x in tensors.items()}
        self.values: dict[Node, object] = {}
        self.problems: list[str] = []
        self.raw: list[tuple] = []  # (layer, target, module inside it, operands) of each operation
        self.made: dict[Node, tuple] = {}  # layer, number
        self.tensors = tensors

    def logits(self, program, inputs):
        given = iter(torch.utils._pytree.tree_leaves(dict(inputs)))
        arguments = [
            self.tensors[spec.target] if spec.target is not None else next(given)
            for spec in program.graph_signature.input_specs
        ]
        with torch.no_grad():
            return self.run(*arguments)[0]

    def run_node(self, n):
        if n.op != "call_function":
            return super().run_node(n)
        operands, options = self.fetch_args_kwargs_from_env(n)
        target = str(n.target)
        if n.target is ITEM and is_carrying(operands[0]):  # of what has no rule, and is listed
            return operands[0]
        carrying = list(filter(is_carrying, torch.utils._pytree.tree_leaves((operands, options))))
        if n.target is ITEM or (not carrying and target not in LEAVES):
            return super().run_node(n)
        make = self._make(n)
        if not carrying:
            return self._leaf(make, super().run_node(n))
        if target in WITHOUT_VALUE:
            return None
        made = OPERATIONS[target](make, *operands, **options) if target in OPERATIONS else None
        if made is None:
            self.problems.append(f"{_fused(target)} at {_place(make.origin)}")
            return carrying[0]  # so that the rest is looked at too
        self._note(make, target, carrying, made)
        return made

    def _make(self, n):
        path, layer = _module(n)
        value = n.meta.get("val")
        return _Make(
            node=n,
            values=self.values,
            names=self.names,
            origin=Origin(module=path, line=_line(n)),
            layer=layer,
            shape=tuple(getattr(value, "shape", ())),
        )

    def _leaf(self, make, value):
        role = next(r for r, pattern in ROLES.items() if re.search(pattern, make.origin.module))
        about = {"role": role, "shape": tuple(value.shape)}
        leaf = Node(INPUT, (), make.origin.module, make.origin, about)
        self.values[leaf] = value.detach()
        self.made[leaf] = None, 0
        return leaf

    def _note(self, make, target, carrying, made):
        """Connections are counted back inside each layer, so that all layers read alike."""
        inside = LAYER.split(make.origin.module)[-1]
        place = make.layer, len(self.raw)
        before = [self.made.get(x, (None, 0)) for x in carrying]
        back = tuple(place[1] - n if layer == place[0] else "from outside" for layer, n in before)
        self.raw.append((make.layer, target, inside, back))
        for node in made if isinstance(made, list) else [made]:
            self.made.setdefault(node, place)

    def signatures(self):
        layers: dict = {}
        for layer, *rest in self.raw:
            layers.setdefault(layer, []).append(rest)
        digest = lambda rows: hashlib.sha256(repr(rows).encode()).hexdigest()[:16]
        return {layer: digest(rows) for layer, rows in layers.items()}


def _module(n):
    """Path of the innermost module, and its layer; one layer called again counts as the next."""
    stack = n.meta.get("nn_module_stack") or {"": ("", None)}
    called = {path: int(key.partition("@")[2] or 0) for key, (path, _cls) in stack.items()}
    path = list(called)[-1]
    layer = LAYER.search(path)
    number = int(layer[1]) + called.get(path[: layer.end()], 0) if layer else None
    return path.removeprefix("model").removeprefix("."), number


def _line(n):
    """The line of the model's own code, rather than that of the library it calls."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', n.meta.get("stack_trace") or "")
    own = [f for f in frames if _is_own(f[0])]
    file, line = (own or frames or [("", "")])[-1]
    return f"{file.rsplit('/', 1)[-1]}:{line}" if file else ""


def _is_own(file):
    return "/torch/" not in file and "pytorch_utils" not in file


def _place(origin):
    return f"{origin.module or '(root)'} ({origin.line or 'unknown line'})"


def _fused(target):
    if target not in FUSED:
        return target
    return f"{target}, which hides its products and its softmax from every rule,"


def _explain(problems):
    fused = any(target in problem for problem in problems for target in FUSED)
    advice = (
        "\nThe model's own code calls it; spell it out there, as a product, a softmax, a product."
        if fused
        else "\nAdd them to OPERATIONS of numeric/auditing/operations.py, with a rule that fits."
    )
    lines = "".join(f"\n  {problem}" for problem in dict.fromkeys(problems))
    return f"{len(problems)} operations cannot be audited:{lines}{advice}"
