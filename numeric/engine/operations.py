"""The effect of each torch function on relevance, with reasons: one closed table, by name.

Nouns only.  ``x + y``, ``torch.add``, ``Tensor.add`` and ``add_`` are one name, "add".  A function
outside of the table that touches an activation is refused.  docs/OPERATIONS.md is
made of it by ``python -m tests.census.operations``.
"""

from dataclasses import dataclass

from lrp_axioms.axioms import kinds

NOTHING, MOVE, CAST, SUM, DROPOUT = "nothing", "move", "cast", "sum", "dropout"
ADD, SUBTRACT, MULTIPLY, DIVIDE = "add", "subtract", "multiply", "divide"
LINEAR, PACKED_LINEAR, MATMUL, SOLVE = "linear", "packed linear", "matmul", "solve"
FUNCTION, DEVIATION, SOFTMAX, ATTENTION = "function", "deviation", "softmax", "attention"
LAYER_NORM, BATCH_NORM = "layer norm", "batch norm"
EMBEDDING, GRADIENT, COMPOSITE, SCAN = "embedding", "gradient", "composite", "scan"


@dataclass(frozen=True)
class Case:
    """One case of a role: its effect on relevance, and the reason.

    kind: its rule acts, which the composite chooses; None where there is nothing to choose
    theorems: their numbers in ``axioms/theorems``
    """

    when: str
    relevance: str
    reason: str
    kind: str | None = None
    theorems: tuple[int, ...] = ()


@dataclass(frozen=True)
class Role:
    """The role of torch functions, which are listed by name."""

    about: str
    functions: str
    cases: tuple[Case, ...]


TABLE: dict[str, Role] = {
    NOTHING: Role("Sizes, comparisons, indices", """
        size dim ndimension numel nelement element_size stride storage_offset data_ptr
        is_contiguous is_floating_point is_complex is_inference item tolist numpy __len__
        __bool__ __int__ __float__ __index__ __repr__ __str__ __format__ __hash__ __contains__
        __array__ __dir__ get_device detach detach_ eq ne lt le gt ge __eq__ __ne__ __lt__ __le__
        __gt__ __ge__ equal allclose isclose isnan isinf isfinite isin logical_and logical_or
        logical_not logical_xor any all argmax argmin argsort nonzero unique bincount histc
        searchsorted bucketize one_hot count_nonzero ones_like zeros_like empty_like full_like
        rand_like randn_like new_zeros new_ones new_full new_empty new_tensor signbit
        is_same_size bernoulli multinomial _set_grad_enabled is_grad_enabled finfo result_type
        promote_types _assert_async is_nonzero untyped_storage storage dtype device is_tensor
        is_storage is_nested _nested_tensor_from_mask_left_aligned""",
        (Case(
            "always", "None: what they give carries none.",
            "What they give is piecewise constant: a small change of an activation changes nothing."
        ),)),
    MOVE: Role("Entries are copied, dropped or put in another order", """
        view view_as reshape reshape_as transpose transpose_ t swapaxes swapdims movedim moveaxis
        permute contiguous expand expand_as broadcast_to repeat repeat_interleave tile getitem
        chunk split split_with_sizes tensor_split hsplit vsplit dsplit unbind cat concat
        concatenate stack hstack vstack dstack flatten unflatten squeeze unsqueeze unsqueeze_
        squeeze_ ravel clone roll flip gather index_select take_along_dim select narrow
        masked_fill masked_fill_ masked_select masked_scatter where pad constant_pad_nd unfold
        im2col tril triu diagonal diag_embed scatter scatter_ index_put index_put_ index_copy
        index_fill setitem copy_ fill_ zero_ as_strided view_as_real view_as_complex rot90 fliplr
        flipud pixel_shuffle pixel_unshuffle channel_shuffle atleast_1d atleast_2d atleast_3d
        meshgrid block_diag cuda cpu pin_memory amax amin max min maximum minimum topk sort
        kthvalue median max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d
        boolean_dispatch max_pool1d_with_indices max_pool2d_with_indices broadcast_tensors real
        imag T mT H mH identity align_to refine_names rename resolve_conj resolve_neg conj
        nan_to_num unsafe_chunk unsafe_split expand_copy""",
        (
            Case(
                "always but below", "An entry's relevance goes to the entry that it was copied "
                "from.", "The output is this entry, so that there is nothing to share; maxima and "
                "top k choose an entry, and the choice is held.", theorems=(6,),
            ),
            Case(
                "all but `clone` and `contiguous`, of a function of each entry", "It ends the "
                "function, whose rule acts before the move.", "Behind a view, a slice or a write "
                "into a part, an entry stands at another place.", theorems=(75,),
            ),
            Case(
                "the larger or smaller of an activation and a fixed tensor, entry by entry",
                "The rules of functions of one tensor act.", "It is clamp with a tensor as limit.",
                kinds.ACTIVATION, (14, 75),
            ),
        )),
    DROPOUT: Role("Dropout", """
        dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout feature_dropout
        native_dropout""",
        (Case("switched off", "It passes on; a function goes on behind it.", "It is the identity.",
              theorems=(6,)),)),
    CAST: Role("Another number format", "to float double half bfloat16 type type_as",
        (Case(
            "to floats", "It passes on.",
            "The number is the same up to rounding; activations in float64 are not narrowed, so "
            "that what is measured in float64 has its digits.",
        ), Case("to integers", "It is refused by name.", "They have no derivative."))),
    SUM: Role("Sums and means without weights, and other fixed linear maps", """
        sum mean cumsum nansum nanmean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d
        adaptive_avg_pool2d adaptive_avg_pool3d interpolate upsample trace fft fftn fft2 ifft
        ifftn ifft2 rfft irfft rfft2 irfft2 rfftn irfftn diff trapz fft_fft fft_fftn fft_fft2
        fft_ifft fft_rfft fft_irfft fft_rfft2 fft_irfft2 index_add scatter_add fold segment_reduce
        grid_sample""",
        (Case(
            "always", "It is shared in proportion to what each entry adds, without a stabiliser.",
            "This is Eq. 1 in the limit, in which such a map and the layer after it give the same "
            "explanation as one layer.", theorems=(6, 11),
        ),)),
    ADD: Role("Sums of two tensors", "add radd",
        (
            Case(
                "of activations", "It is shared in proportion to what each term adds.",
                "Eq. 1 gives all that arrives to the terms as ε → 0, as in residual streams.",
                kinds.ADD, (6, 12),
            ),
            Case(
                "of an activation and a fixed tensor or a number",
                "The fixed term absorbs its share, as a bias does.",
                "It is part of the value that is explained, but no part of the input.",
                kinds.ADD, (6, 25, 75),
            ),
            Case(
                "of scores and a mask of 0 and −∞", "It passes on.",
                "A mask of −∞ hides a score; what is hidden has weight 0 and no relevance.",
            ),
            Case(
                "of functions of one tensor, or of a function and a fixed term",
                "It waits: the sum is a step of one function.",
                "GELU spelled out and GELU in one call are one function, and get one explanation.",
                kinds.ACTIVATION, (14, 75),
            ),
        )),
    SUBTRACT: Role("Differences", "sub rsub subtract",
        (Case("always", "As of a sum, with the sign of what is taken away.",
              "a − b is a + (−b), and −b is a linear map.", kinds.ADD, (6,)),)),
    MULTIPLY: Role("Products, entry by entry", "mul rmul multiply",
        (
            Case(
                "of two activations, as gates", "Half to each.",
                "Equal shares are the only numbers that conserve, are symmetric and are the same "
                "for all orders of the factors.", kinds.PRODUCT, (3, 4, 5),
            ),
            Case(
                "by a fixed tensor", "All to the activation.",
                "It is a linear map of the activation.", kinds.LINEAR, (6,),
            ),
            Case(
                "by what a norm divides by", "All to the activation.",
                "The deviation is held, and a product with it only scales.", kinds.RMS_NORM, (13,),
            ),
            Case(
                "by cos or sin of positions, if `positions` asks", "Half to each.",
                "Rotation then is a product of content and position.", kinds.PRODUCT, (22, 50),
            ),
            Case(
                "by a number, of functions of one tensor, or of a function and a fixed tensor",
                "It waits: the product is a step of one function.",
                "x · sigmoid(x) is SiLU, however it is spelled.", kinds.ACTIVATION, (14,),
            ),
        )),
    DIVIDE: Role("Quotients", "div rdiv truediv rtruediv divide true_divide",
        (
            Case("by a fixed tensor or a number", "As of a product.", "It is a product by 1/b."),
            Case(
                "by an activation", "All to what is divided.",
                "What divides is held, as the deviation of a norm is: by the gradient the two "
                "would receive R and −R, which is nothing in all.", theorems=(13, 23),
            ),
        )),
    LINEAR: Role(
        "Linear maps by weights",
        "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
        (Case(
            "always", "It is shared in proportion to input times weight; the bias has a share.",
            "For one output this is what leaving an input out changes.", kinds.LINEAR, (6, 11, 25),
        ),)),
    PACKED_LINEAR: Role("Linear maps by weights that are packed in few bits", "linear_dynamic",
        (Case("always", "As of a linear map by the weights as numbers.",
              "The kernel has no gradient; its rounding absorbs a little.", kinds.LINEAR, (6,)),)),
    MATMUL: Role("Products of matrices", """
        matmul rmatmul mm bmm addmm baddbmm einsum tensordot mv dot vdot inner linalg_vecdot outer
        grouped_mm _grouped_mm""",
        (
            Case("of an activation and a fixed matrix", "As of a linear map.", "It is one.",
                 kinds.LINEAR, (6,)),
            Case(
                "of two activations whose product a softmax reads", "Half to each, by Eq. 4.",
                "Both factors have degree one, and equal shares conserve.", kinds.SCORES, (7, 17),
            ),
            Case(
                "of attention weights and values",
                "Half to each, by Eq. 3; by CP-LRP all to the values.",
                "CP-LRP holds the weights, because what passes a softmax is not conserved.",
                kinds.READOUT, (7, 18),
            ),
            Case("of two other activations", "Half to each.",
                 "Eq. 3 says nothing that is special to attention.", kinds.BILINEAR, (7, 8)),
        )),
    SOLVE: Role("Solutions of linear systems", "linalg_solve_triangular",
        (Case("by a fixed matrix", "As of the linear map by its inverse.", "It is one.",
              kinds.LINEAR, (6,)),)),
    FUNCTION: Role("Functions of each entry by itself", """
        gelu relu relu6 silu tanh sigmoid softplus elu celu selu leaky_relu prelu mish hardswish
        hardsigmoid hardtanh logsigmoid log_sigmoid softsign tanhshrink threshold erf erfc exp
        exp2 expm1 log log2 log10 log1p pow rpow square abs sin cos sinh cosh atan arctan clamp
        clip clamp_min clamp_max reciprocal round floor ceil trunc sign xlogy float_power""",
        (
            Case(
                "of functions that are 0 or infinite at 0, such as GELU, SiLU and tanh",
                "It passes on: all of the output's relevance is the input's.",
                "One input makes the whole output; of a ReLU this is the gradient times the input.",
                kinds.ACTIVATION, (14, 15),
            ),
            Case(
                "of other functions, such as sigmoid, softplus, cos and tanh(x) + 1",
                "The value at 0 absorbs its share, as a fixed term of a sum: the input gets "
                "R (f(x) − f(0)) / f(x).",
                "Handing on all of R would multiply it without bound near 0, and 1 − sigmoid(x) "
                "and sigmoid(−x), or a number and a tensor, would give different relevance.",
                kinds.ADD, (75,),
            ),
            Case(
                "powers of −1 and ±½ of what is no function of an activation by itself",
                "None: it is held.",
                "So are divisors and square roots, which are these powers.",
                kinds.RMS_NORM, (13, 23),
            ),
        )),
    DEVIATION: Role("What norms divide by", """
        rsqrt sqrt std var norm vector_norm linalg_norm linalg_vector_norm linalg_matrix_norm""",
        (Case(
            "always", "None: it is held.",
            "A norm whose deviation moves along gives a gradient times input of 0 in total.",
            kinds.RMS_NORM, (13, 23),
        ),)),
    SOFTMAX: Role("Softmax", "softmax",
        (Case(
            "always", "The first-order Taylor term, by Eq. 5; by CP-LRP none.",
            "Eq. 5 is the plain gradient and does not conserve; CP-LRP conserves and passes by.",
            kinds.SOFTMAX, (10, 25),
        ),)),
    LAYER_NORM: Role("LayerNorm in one call", "layer_norm",
        (Case(
            "always", "As of the linear map that it is while its deviation is held; its shift "
            "absorbs its share.",
            "This explanation is the same when the norm is written as centring and scaling.",
            kinds.LAYER_NORM, (13, 23),
        ),)),
    BATCH_NORM: Role("BatchNorm with running statistics", "batch_norm",
        (Case("always", "As of a linear map of each channel.",
              "It is one, and folded into the layer before it, it is explained alike as ε → 0.",
              kinds.LINEAR, (16, 42)),)),
    ATTENTION: Role("Fused attention", "scaled_dot_product_attention",
        (Case(
            "always", "By the rules of the kinds `scores`, `softmax` and `readout`.",
            "As ε → 0 they are factors on what reaches Q, K and V, so that the kernel stays "
            "fused; a finite ε spells attention out.", theorems=(7, 10),
        ),)),
    EMBEDDING: Role("Lookups", "embedding",
        (Case("of words", "It ends here: this is what attributions show.",
              "Rows of tables that are added to words count as one embedding, by Eq. 1 on the sum; "
              "rows of an adapter in the module of words count as words.",
              theorems=(6,)),)),
    GRADIENT: Role(
        "Questions of your own code about gradients",
        "grad backward requires_grad requires_grad_ retain_grad register_hook grad_fn is_leaf",
        (Case("always", "Rules that wait for a use act first.",
              "The gradient is asked for at this tensor as it stands."),)),
    COMPOSITE: Role("Functions that are made of others", """
        multi_head_attention_forward glu rms_norm normalize group_norm instance_norm
        cosine_similarity addcmul addcdiv lerp var_mean std_mean neg negative""",
        (Case("always", "By the rules of the operations that they are made of.",
              "Whether a model spells a function out or calls it must make no difference: −x is "
              "x · (−1)."),)),
    SCAN: Role("Scans of state space models, in the code of Transformers", """
        mamba_selective_scan mamba2_chunk_scan torch_chunk_gated_delta_rule
        chunk_kimi_delta_attention rwkv_linear_attention_cpu
        wrap_chunkwise_arbitrary_sequence_length""",
        (
            Case(
                "of that by which they select: dt, B and C; queries, keys, g and beta; gates",
                "None: it is held by every composite in which a rule acts on readouts.",
                "The state conserves if what it is multiplied by is held; with half to each factor "
                "a token would count by its distance.", kinds.READOUT, (72,),
            ),
            Case("of all else", "By the rules of the operations that they are made of.",
                 "With the selection held these are linear maps and sums.", theorems=(72,)),
        )),
}  # fmt: skip
ROLES = {name: role for role, entry in TABLE.items() for name in entry.functions.split()}
"""The role of each function, by name."""
