"""The configuration of any architecture, with every size small."""

import re
from collections.abc import Sequence

from transformers import CONFIG_MAPPING, PreTrainedConfig

VOCABULARY, WIDTH, HEADS, KEYS, HEAD, LAYERS, SIZE = 64, 32, 4, 2, 8, 2, 64

PAD, START, END, MASK, MARK = range(5)
"""Tokens that mean something; all others are words."""

SIZES = {  # pattern of a field's name -> its value; the first match counts
    r"pad_token_id|subs_pad_id|tag_pad_id": PAD,
    r"bos_token_id|cls_token_id|decoder_start_token_id": START,
    r"eos_token_id|sep_token_id|forced_eos_token_id|eod_token_id": END,
    r"mask_token_id": MASK,
    r".*_token_(id|index)": MARK,
    r"(.*_)?vocab(_size)?(_.*)?|num_hash_buckets": VOCABULARY,
    r"(swa_)?num_key_value_heads|num_kv_heads|kv_n_heads|linear_num_key_heads": KEYS,
    r".*heads|n_head|num_query_groups": HEADS,
    r"qk_head_dim": 2 * HEAD,
    r"(.*_)?(head_dim|head_size|headdim)|d_head|d_kv|dim_head|kv_channels": HEAD,
    r".*_rank|hidden_size_per_layer_input|xpath_unit_hidden_size|(ssm_)?state_size"
    r"|mamba_d_state|rotary_dim": HEAD,
    r"num_hidden_layers|n_layers?|num_(encoder_|decoder_)?layers|(en|de)coder_layers"
    r"|[lrx]_layers|num_blocks|num_layers_per_stack|depth|max_window_layers"
    r"|layer_group_size": LAYERS,
    r"(hidden|embedding|input_embedding|output_embedding|pooler_hidden"
    r"|cross_attention_hidden|projection|pooler_output|prediction_head)_size"
    r"|d_model|n_embd|emb_dim|embedding_dim|dim|projection_dim|lru_width|word_embed_proj_dim"
    r"|pronunciation_embed_dim|shape_embed_dim|entity_emb_size|hidden_size_global"
    r"|d_latents|adapter_((in|out)_dim|input_size)|dim_bbox_projection|out_hidden_size"
    r"|output_dim": WIDTH,
    r"(.*_)?intermediate_size(_mlp)?|(.*_)?ffn_(dim|hidden_size)|d_ff|dff|dim_ff|d_inner"
    r"|hidden_dim|feed_forward_size|mlp_dim|n_inner": 48,
    r"num_(local_|routed_)?experts|n_routed_experts|moe_num_experts": 4,
    r"num_experts_per_tok(en)?|moe_top_?k|moe_k|n_group|num_expert_group": 2,
    r"(mamba_)?n_?groups": 2,
    r"topk_group|n_shared_experts|num_shared_experts|moe_num_shared_experts"
    r"|first_k_dense_replace|num_dense_layers|num_nextn_predict_layers": 1,
    r"(max_.*|n_)positions?(_embeddings)?|n_ctx|max_seq_len|model_max_length|context_length"
    r"|original_max_position_embeddings": 64,
    r"(sliding|attention|local_attention|keep)_window(_size)?|local_attention": 6,
    r"chunk_size|mamba_chunk_size|block_size|attention_chunk_size": 4,
    r"image_size|input_size|crop_size": SIZE,
    r"embed_dim": 24,
}
"""Heads times head is the width; two heads share keys where the architecture can."""

LISTS = {  # lists with one entry per stage; their proportions stay
    r"hidden_sizes|embed_dims?": lambda sizes: [16 * x // sizes[0] for x in sizes],
    r"depths?|num_block_repeats|n_attn_blocks|stage_num_blocks|stage_numb_of_layers"
    r"|block_sizes": lambda sizes: [min(x, LAYERS) for x in sizes],
    r"image_size": lambda sizes: [SIZE] * len(sizes),
    r"intermediate_size": lambda sizes: [48] * LAYERS,
    r"num_attention_heads_per_layer": lambda sizes: [HEADS] * LAYERS,
}
FILLED = re.compile(r"(pad|bos|eos)_token_id|vocab_size|head_dim|num_key_value_heads")
"""Fields that get a size although their default is None."""

MROPE = dict(rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[2, 1, 1]))
"""Rotary positions with parts for time, height and width."""

EXCEPTIONS = {
    "aria": dict(projector_patch_to_query_dict={4: 4}),
    "bamba": dict(mamba_n_heads=8, attn_layer_indices=[1]),
    "bit": dict(num_groups=2),
    "blip-2": dict(image_token_index=MARK),
    "blt": dict(use_cache=False),
    "cohere_compass_text": dict(rope_parameters={"full_attention": dict(rope_type="default",
        rope_theta=1e4, mrope_section=[2, 1, 1])}),
    "cvt": dict(depth=(1, 2, 3)),
    "dbrx": dict(attn_config=dict(rope_theta=1e4, kv_n_heads=KEYS, clip_qkv=8.0)),
    "deepseek_v2": dict(num_experts_per_tok=2),
    "donut-swin": dict(window_size=2),
    "dots1": dict(n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1),
    "efficientnet": dict(width_coefficient=0.25, depth_coefficient=0.5, hidden_dim=320),
    "esmc": dict(num_key_value_heads=HEADS),
    "falcon_h1": dict(mamba_n_heads=8, mamba_d_ssm=64),
    "gemma3": dict(mm_tokens_per_image=4),
    "gemma3n_text": dict(num_kv_shared_layers=0),
    "glm4v_moe_text": dict(rope_parameters=dict(rope_type="default", rope_theta=1e4,
        partial_rotary_factor=0.5, mrope_section=[1, 1, 0])),
    "glm4v_text": MROPE, "glm_ocr_text": MROPE,
    "granitemoehybrid": dict(mamba_n_heads=8, layer_types=["linear_attention", "full_attention"]),
    "hgnet_v2": dict(stem_channels=(3, 4, 6), stage_in_channels=(6, 16, 32, 64),
        stage_mid_channels=(6, 12, 24, 48), stage_out_channels=(16, 32, 64, 64),
        hidden_sizes=(16, 32, 64, 64)),
    "hrm_text": dict(num_layers_per_stack=None),
    "instructblip": dict(image_token_index=MARK),
    "jamba": dict(attn_layer_offset=1),
    "kosmos-2": dict(latent_query_num=4),
    "layoutlmv3": dict(coordinate_size=4, shape_size=8),
    "lfm2_moe": dict(layer_types=["conv", "full_attention"]),
    "lilt": dict(hidden_size=48),
    "llava_next": dict(image_grid_pinpoints=[[SIZE, SIZE]]),
    "llava_next_video": dict(image_grid_pinpoints=[[SIZE, SIZE]]),
    "llava_onevision": dict(image_grid_pinpoints=[[SIZE, SIZE]]),
    "mamba2": dict(num_heads=8),
    "markuplm": dict(max_depth=4),
    "mistral4": dict(head_dim=2 * HEAD),
    "mobilebert": dict(intra_bottleneck_size=16),
    "mobilenet_v1": dict(depth_multiplier=0.25),
    "mobilenet_v2": dict(depth_multiplier=0.25),
    "mobilevit": dict(hidden_sizes=(16, 24, 32), neck_hidden_sizes=(8, 8, 16, 16, 16, 16, 32)),
    "mobilevitv2": dict(width_multiplier=0.25),
    "nemotron_h": dict(layers_block_type=["linear_attention", "moe", "full_attention", "mlp"]),
    "neomme": dict(head_dim=16),
    "paddleocr_vl_text": MROPE, "qwen2_5_vl_text": MROPE, "qwen2_vl_text": MROPE,
    "qwen2_vl_vision": dict(embed_dim=32),
    "qwen4_exp_text": dict(indexer_n_heads=2, indexer_kv_heads=1, indexer_head_dim=8,
        indexer_budget=4, indexer_compress_ratio=2),
    "recurrent_gemma": dict(block_types=["recurrent", "attention"]),
    "reformer": dict(axial_pos_embds_dim=(16, 16)),
    "shieldgemma2": dict(mm_tokens_per_image=4),
    "swin": dict(window_size=2),
    "t5gemma2_encoder": dict(mm_tokens_per_image=4),
    "t5": dict(decoder_start_token_id=0),
    "textnet": dict(stem_out_channels=16),
    "vipllava": dict(vision_feature_layers=[-2, -1]),
    "xlstm": dict(hidden_size=128, embedding_dim=128),
    "xmod": dict(default_language="en_XX"),
    "zamba": dict(layers_block_type=["linear_attention", "hybrid", "hybrid"], num_hidden_layers=3),
    "zamba2": dict(n_mamba_heads=8),
    "zaya": dict(num_experts_per_tok=1),
}  # fmt: skip
"""Fields that the tables get wrong, by type of model."""


def tiny(model_type: str) -> PreTrainedConfig:
    """The configuration of an architecture with two small layers.

    Raises whatever the class of the configuration does.
    """
    cls = CONFIG_MAPPING[model_type]
    return cls(**small(cls()))


def small(config: PreTrainedConfig) -> dict:
    """The fields of ``config`` that are too large, made small."""
    fields = vars(config)
    found = {name: _small(name, value) for name, value in fields.items()}
    found = {name: value for name, value in found.items() if value is not fields[name]}
    if "kv_lora_rank" in fields:  # latent attention has as many keys as queries
        found["num_key_value_heads"] = HEADS
    return found | EXCEPTIONS.get(config.model_type, {})


def _small(name, value):
    first = value[0] if isinstance(value, (list, tuple)) and value else None
    if isinstance(value, PreTrainedConfig):
        return type(value)(**small(value))
    if type(first) is int:
        return _sized(LISTS, name, lambda x: x)(value)
    if "layer" in name and isinstance(first, (str, float)):
        return kinds(value)
    if type(value) is int or (value is None and FILLED.fullmatch(name)):
        return _sized(SIZES, name, value)
    return value


def _sized(table, name, default):
    return next((x for key, x in table.items() if re.fullmatch(key, name)), default)


def kinds(values: Sequence) -> list:
    """The first of each kind of layer, as many as there are layers."""
    distinct = list(dict.fromkeys(values))[:LAYERS]
    return distinct + distinct[-1:] * (LAYERS - len(distinct))
