"""Which torch functions do what to relevance: one closed table, by the name of the function.

Nouns only.  ``x + y``, ``torch.add``, ``Tensor.add`` and ``add_`` are one name, "add".  A function
that is not here and touches an activation is refused.
"""

NOTHING = "nothing"  # what it returns carries no relevance: sizes, comparisons, indices
MOVE = "move"  # copies, drops or reorders entries
CAST = "cast"  # one number format for another
SUM = "sum"  # linear and without weights: sums and means of entries
ADD, SUBTRACT, MULTIPLY, DIVIDE = "add", "subtract", "multiply", "divide"
LINEAR = "linear"  # a linear map by weights, the third argument being its bias
PACKED_LINEAR = "packed linear"  # the same by weights that are packed in few bits
MATMUL = "matmul"  # a product of matrices: linear, unless both are activations
FUNCTION = "function"  # acts on each entry by itself
DEVIATION = "deviation"  # what norms divide by
SOFTMAX, ATTENTION = "softmax", "attention"
LAYER_NORM, BATCH_NORM = "layer_norm", "batch_norm"
EMBEDDING = "embedding"
GRADIENT = "gradient"  # asks for gradients of, or at, what a rule may still wait for
COMPOSITE = "composite"  # a function of torch in Python, whose own calls are looked up

_NAMES = {
    NOTHING: """
        size dim ndimension numel nelement element_size stride storage_offset data_ptr
        is_contiguous is_floating_point is_complex is_inference item tolist numpy __len__
        __bool__ __int__ __float__ __index__ __repr__ __str__ __format__ __hash__ __contains__
        __array__ __dir__ get_device detach detach_
        eq ne lt le gt ge __eq__ __ne__ __lt__ __le__ __gt__ __ge__ equal allclose isclose isnan
        isinf isfinite isin logical_and logical_or logical_not logical_xor any all argmax argmin
        argsort nonzero unique bincount histc searchsorted bucketize one_hot count_nonzero
        ones_like zeros_like empty_like full_like rand_like randn_like new_zeros new_ones
        new_full new_empty new_tensor signbit is_same_size bernoulli
        multinomial _set_grad_enabled is_grad_enabled finfo result_type promote_types
        _assert_async is_nonzero untyped_storage storage dtype device is_tensor
        is_storage is_nested""",
    MOVE: """
        view view_as reshape reshape_as transpose transpose_ t swapaxes swapdims movedim moveaxis
        permute contiguous expand expand_as broadcast_to repeat repeat_interleave tile
        getitem chunk split split_with_sizes tensor_split hsplit vsplit dsplit unbind
        cat concat concatenate stack hstack vstack dstack flatten unflatten squeeze unsqueeze
        unsqueeze_ squeeze_ ravel clone roll flip gather index_select take_along_dim select narrow
        masked_fill masked_fill_ masked_select masked_scatter where pad constant_pad_nd
        unfold im2col tril triu diagonal diag_embed dropout dropout1d dropout2d alpha_dropout
        feature_alpha_dropout scatter scatter_ index_put index_put_ index_copy index_fill
        setitem copy_ fill_ zero_ as_strided view_as_real view_as_complex rot90 fliplr
        flipud pixel_shuffle pixel_unshuffle channel_shuffle atleast_1d atleast_2d atleast_3d
        meshgrid block_diag cuda cpu pin_memory amax amin max min maximum minimum topk sort kthvalue
        median max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d
        boolean_dispatch max_pool1d_with_indices max_pool2d_with_indices broadcast_tensors
        native_dropout real imag T mT H mH identity align_to refine_names rename resolve_conj
        resolve_neg conj nan_to_num unsafe_chunk unsafe_split expand_copy""",
    CAST: "to float double half bfloat16 type type_as",
    SUM: """
        sum mean cumsum nansum nanmean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d
        adaptive_avg_pool2d adaptive_avg_pool3d interpolate upsample trace fft fftn fft2 ifft
        ifftn ifft2 rfft irfft rfft2 irfft2 rfftn irfftn diff trapz
        fft_fft fft_fftn fft_fft2 fft_ifft fft_rfft fft_irfft fft_rfft2 fft_irfft2 neg negative
        index_add scatter_add fold segment_reduce grid_sample""",
    ADD: "add radd",
    SUBTRACT: "sub rsub subtract",
    MULTIPLY: "mul rmul multiply",
    DIVIDE: "div rdiv truediv rtruediv divide true_divide",
    LINEAR: "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d",
    PACKED_LINEAR: "linear_dynamic",
    MATMUL: """
        matmul rmatmul mm bmm addmm baddbmm einsum tensordot mv dot outer
        grouped_mm _grouped_mm""",
    FUNCTION: """
        gelu relu relu6 silu tanh sigmoid softplus elu celu selu leaky_relu prelu mish hardswish
        hardsigmoid hardtanh logsigmoid softsign tanhshrink threshold erf erfc exp exp2 expm1 log
        log2 log10 log1p pow rpow square abs sin cos sinh cosh atan arctan clamp clip clamp_min
        clamp_max reciprocal round floor ceil trunc sign xlogy float_power""",
    DEVIATION: "rsqrt sqrt std var norm vector_norm linalg_norm linalg_vector_norm",
    SOFTMAX: "softmax",
    LAYER_NORM: "layer_norm",
    BATCH_NORM: "batch_norm",
    ATTENTION: "scaled_dot_product_attention",
    EMBEDDING: "embedding",
    GRADIENT: """
        grad backward requires_grad requires_grad_ retain_grad register_hook grad_fn is_leaf""",
    COMPOSITE: "multi_head_attention_forward glu rms_norm normalize group_norm",
}
ROLES = {name: role for role, names in _NAMES.items() for name in names.split()}
"""Function, by name -> what it does."""
