"""Groups of ratios, with a sentence each for the page of results."""

GROUPS = {
    "time of LRP": (
        "Seconds of one explanation over seconds of plain gradient × input of the same BERT-base "
        "(random weights, parameters frozen) on the same batch; below 1 LRP is faster."
    ),
    "repeated calls": (
        "Processor seconds on one thread of one explanation over those of plain gradient × input "
        "of the same stock model (random weights but for the embedded model) and the same text, "
        "replayed but for 'by rules'. Explanations compute one row of a language model's logits; "
        "the gradient computes all rows unless the name says one."
    ),
    "mask relevance": (
        "CPU seconds of one explanation by mask relevance over those of plain gradient × input of "
        "the same model (random weights, parameters frozen) on the same batch: BERT-base, and a "
        "language model of 8 layers in the shape of Qwen2-0.5B."
    ),
    "memory of LRP": (
        "Most bytes that torch holds at once during one explanation, beyond the model, over those "
        "of plain gradient × input."
    ),
    "long texts": (
        "Processor seconds, and most bytes that torch holds beside the model, of one explanation "
        "of a language model over those of plain gradient × input of its last token: random "
        "weights in the shape of Qwen2-0.5B, float32, one text. The vocabulary is cut to 1,024, "
        "which saves a table and no work, because one row of logits is computed. 'again' is "
        "`checkpoint=True`."
    ),
    "torch.compile": (
        "Seconds of AttnLRP with both passes compiled (`lrp_axioms.compiled`), without the time to "
        "compile, over seconds of `attribute`, the same BERT-base; below 1 compiled is faster."
    ),
    "Leave-One-Out against Captum": (
        "CPU seconds of Captum's FeatureAblation over those of our exact Leave-One-Out, the same "
        "BERT-base and the same answers; 'default' removes one token at a time, 'best' is the "
        "fastest `perturbations_per_eval`; above 1 ours is faster."
    ),
    "Leave-One-Out of a language model": (
        "Exact Leave-One-Out of the shape of Qwen2-0.5B, 4 layers and 32,000 words: products and "
        "CPU seconds of copies that run whole over those of copies that begin where they differ "
        "from the text; above 1 the latter copies are faster."
    ),
    "Leave-One-Out against LRP": (
        "Seconds of exact Leave-One-Out over those of one AttnLRP pass, BERT-base and one text; "
        "and the exponent a of time ~ tokens^a of each, fitted from 64 to 512 tokens."
    ),
    "interactions": (
        "CPU seconds of one forward pass for each of the 325 pairs of a text over seconds of "
        "`interactions`, which runs 115 more copies for single tokens, groups and random sets "
        "(above 1 ours is faster); and its peak memory over the loop's."
    ),
    "sweep": (
        "All mixes of Table A3: CPU seconds of one run for each over those of the sweep (above 1 "
        "the sweep is faster), and its peak memory over the peak memory of one AttnLRP run."
    ),
    "Integrated Gradients and curves": (
        "CPU seconds of a plain loop (one quadrature node, or one masked copy, at a time) over "
        "those of ours in batches, the same BERT-base and the same answers; above 1 ours is "
        "faster."
    ),
    "other libraries": (
        "CPU seconds of another library's explanation over those of ours, the same BERT-base on "
        "128 tokens, each in a process of its own; above 1 ours is faster."
    ),
    "GPU": (
        "bfloat16 on a GPU. Compiled AttnLRP over the linear products and the attention kernels "
        "of its two passes alone; seconds of exact Leave-One-Out over those in float32; and time "
        "and memory of AttnLRP over plain gradient × input, for a language model in the shape of "
        "Llama 3.2 1B with random weights and a vocabulary of 1,024."
    ),
    "precision": (
        "Exact Leave-One-Out of the embedded model, on its first 50 sentences, in bfloat16: its "
        "distance from the result in float32, over the norm of this result."
    ),
    "audit": (
        "Seconds of an audit of BERT-base on 64 tokens over seconds of one plain gradient × input "
        "of the same model on the same text."
    ),
}
