"""What each theorem means for somebody who reads or makes an explanation, in plain words."""

MEANINGS = {
    1: "A product has one explanation for every way to set its brackets. The function is the "
    "same, and so is Leave-One-Out.",
    2: "Every product of two halves relevance as epsilon -> 0: a factor below d products "
    "receives R/2^d. Therefore each bracketing of up to 7 factors has an explanation of its "
    "own.",
    3: "Nested products that are merged into one operation have one explanation: R/n for each of "
    "n factors.",
    4: "The equal split of a merged product is its Shapley value and its Integrated Gradients, "
    "but not its Leave-One-Out.",
    5: "Conservation, symmetry and implementation invariance force the equal split of a product, "
    "and none of the three can be left out. They do so only for shares that do not depend on "
    "the values of the factors.",
    6: "For one linear output, Eq. 1 is Leave-One-Out as epsilon -> 0, if the bias is in the "
    "denominator. What the inputs miss is exactly what bias and stabiliser absorb.",
    7: "As epsilon -> 0, AttnLRP gives each factor of a matrix product half of its relevance. "
    "CP-LRP holds the attention weights constant and gives all of it to the values.",
    8: "Through sums, linear maps without bias, ReLUs and products, relevance is as epsilon -> 0 "
    "gradient x input, halved once for every product on the way. So the two factorizations of "
    "linear attention have different explanations.",
    9: "As one product of three factors, linear attention has one explanation, whichever of its "
    "two factorizations is merged. It conserves as epsilon -> 0.",
    10: "The softmax rule of Eq. 5 does not conserve relevance. It also reacts to a constant that "
    "is added to all logits, although no attention weight does.",
    11: "As epsilon -> 0, two linear layers can be folded into one without a change of the "
    "explanation, if their biases are in the denominators. At finite epsilon the two layers "
    "absorb more than the one.",
    12: "As epsilon -> 0, sums can be nested and distributed over products without a change of "
    "the explanation. Splitting a sum by absolute values loses the first, and merging "
    "products the second.",
    13: "With its deviation held, LayerNorm is a linear map: only its bias and the stabiliser "
    "absorb relevance, and as epsilon -> 0 it can be written in several steps. The identity "
    "rule conserves more, and depends on the steps.",
    14: "GELU has several explanations, which depend on how its distribution function is written. "
    "A constant that is spelled out can absorb relevance without bound.",
    15: "In networks of ReLUs, relevance is gradient x input as epsilon -> 0, if biases are in "
    "the denominators. Otherwise two networks for one function can have different "
    "explanations.",
    16: "As epsilon -> 0, BatchNorm can be folded into the linear layer before it without a "
    "change of the explanation, if both follow Eq. 1. It cannot if relevance is handed "
    "through BatchNorm, or by the z+ rule.",
    17: "Most changes of the weights that no output shows are not shown by relevance either, as "
    "epsilon -> 0. At finite epsilon some of them are.",
    18: "CP-LRP gives relevance to keys that can be left out without any effect. No attribution "
    "to keys both sums to the output and, like Leave-One-Out, ignores a shift of all values.",
    19: "What AttnLRP gives an attention logit is the Leave-One-Out of its key times a factor "
    "that can have either sign and any size.",
    20: "Leaving a key out also changes the weights of the others. This is why its effect is not "
    "the share that CP-LRP gives it.",
    21: "With merged products and as epsilon -> 0, relevance is Integrated Gradients for a sum of "
    "products, but in general not for a product of sums.",
    22: "A rotation that is held fixed passes all relevance on to the query as epsilon -> 0, and "
    "the explanation depends on relative position alone. As a product, position receives half "
    "at every angle, and absolute values of its shares add up to more where signs differ.",
    23: "LayerNorm hardly reacts to the scale of its input. Plain gradient x input therefore sums "
    "to zero in front of it as norm-epsilon -> 0. Integrated Gradients of a linear readout "
    "stay complete, but no step away from the baseline shows it.",
    24: "A network may conserve relevance although none of its operations does, as losses can "
    "cancel.",
    25: "It is known how much each operation of a BERT layer absorbs. Without biases and as "
    "epsilon -> 0 only the softmax does, and CP-LRP, which passes it by, conserves exactly.",
    26: "The z+ rule looks at positive contributions alone. It is not Leave-One-Out, and it "
    "depends on how linear layers are folded.",
    27: "The gamma rule lies between Eq. 1 and z+. No gamma > 0 is independent of how linear "
    "layers are folded.",
    28: "The alpha-beta rule with alpha - beta = 1 and beta > 0 conserves as epsilon -> 0 only "
    "where contributions of both signs exist, and no fixed alpha makes it Eq. 1.",
    42: "The canonizer gives BatchNorm after a linear layer the explanation of the folded layer. "
    "A scale that is a factor of a product takes half.",
    44: "Canonizers do not make all implementations of a function agree: distribution and a "
    "softmax in parts still show. In the example of distribution it is the merging that tells "
    "them apart.",
    45: "In nine encodings of position, content and position together receive everything that "
    "arrives as epsilon -> 0, and only stabilisers absorb any of it.",
    46: "A bias that changes no attention weight receives nothing in total as epsilon -> 0. The "
    "sum of absolute values does not show this.",
    47: "A table that is multiplied into the attention weights receives a quarter of the "
    "relevance as epsilon -> 0, even if it holds ones and changes nothing.",
    49: "A step that moves no key receives nothing when it is written as a sum, and most of the "
    "relevance when a chain of such steps is written as matrix products.",
    50: "Measured from angle 0, a rotation receives nothing where nothing is turned. As a product "
    "it receives half at every angle (theorem 22), which says nothing about how much position "
    "mattered.",
    51: "In a model that recalls a fact by one head, CP-LRP gives that fact the most relevance "
    "wherever the head prefers it. A constant that changes no answer takes this away, and "
    "another one makes AttnLRP miss the fact.",
    52: "In induction by two sharp heads, the word that leads to the answer receives next to "
    "nothing, although the answer depends on it.",
    53: "A word that acts only by drawing attention to itself receives nothing from CP-LRP, and "
    "from AttnLRP an amount that depends on its logit.",
    54: "Relevance of the attention mask is Leave-One-Out in one layer, and without its factors "
    "the derivative by the mask in a stack. In one row it shares what theorem 18 says of "
    "Leave-One-Out, and it does not conserve.",
    55: "Across two layers it misses Leave-One-Out by little where the token itself is attended "
    "to little, provided that the token's own row does not count.",
    56: "CP-LRP can give a key the sign that Leave-One-Out does not have. Theorem 59 has the "
    "difference.",
    57: "Replacing an activation before a norm has the effect that coefficients with the "
    "deviation held predict if the patch keeps the deviation. Before an RMSNorm that has no "
    "weights, the gradient sees a patch that only stretches, and the change of length and of "
    "direction decides which of both is closer.",
    58: "Equal split predicts the removal of both factors of a product.",
    59: "What CP-LRP misses of Leave-One-Out at a key is its weight times the output without it. "
    "Where attention is flat, both rank keys alike, as each is an affine map of the other "
    "with correlation 1, though they differ and can have opposite signs; AttnLRP may rank "
    "keys the other way round.",
    60: "A rule for products of two survives re-association only if its shares solve Sincov's "
    "equation, as shares by logarithms do. With units, order, conservation and locality all "
    "respected there is none: a rule designer has to give up one of five axioms.",
    61: "LRP needs no message by message propagation: one backward pass through an implementation "
    "that holds deviations, ratios of activations and all but one factor gives the same "
    "relevance. Where a denominator is 0, the two differ.",
    62: "A softmax that gives logits their share along a path from equal weights passes on what "
    "differs from equal weights, and absorbs the rest.",
    63: "On products of nonzero factors and on rows of softmax attention, an explanation can add "
    "up to the output or agree with Leave-One-Out, and not both. The table in "
    "docs/FINDINGS.md says which axioms each method obeys.",
    64: "Canonized, all graphs whose layers have fixed weights and that differ only by brackets, "
    "order, folded layers or BatchNorm, or by ones, zeros and identities put in, are one "
    "graph, and so have one explanation.",
    65: "Canonized, graphs that differ by the order or number of neurons or channels have one "
    "explanation too. As epsilon -> 0 so do graphs whose layers are distributed over sums, "
    "whose Q and K are rescaled, whose input of LayerNorm is centred, or whose heads are "
    "written in another way that keeps their weights.",
    66: "What CP-LRP misses of Leave-One-Out is bounded by attention weights and by how much a "
    "key changes the deviation behind it. Where nothing comes back through attention weights, "
    "as at logits 0, what AttnLRP gives a token shrinks with depth, and to 2^-d of CP-LRP's "
    "relevance after d layers for what takes all of them.",
    67: "With every rewrite as an axiom of its own, 14 sets of axioms exclude each other, and all "
    "other sets are obeyed by one of seven methods. A rule that works operation by operation, "
    "conserves and treats factors alike cannot survive a product with a sum, or another unit, "
    "and also another bracketing or a factor 1. The table is docs/AXIOMS.md.",
    68: "On polynomials, decided by machine for 3 inputs and degree 4 at most, Integrated "
    "Gradients are the only attribution that is linear, complete, symmetric and free of "
    "units, if an input gets the sum of what its uses get. Without the last axiom the Shapley "
    "value is another one, and the straight path is not the only symmetric path, as is often "
    "said.",
    69: "A product rule that no bracket and no order changes shares powers by logarithms, and is "
    "not defined for factors of 1. Where every input occurs once in each term, the merged "
    "split is the only choice. Shares by degrees make it Integrated Gradients for more "
    "graphs.",
    70: "Positional-aware LRP loses in one head with rotary position what AttnLRP loses at its "
    "softmax, and nothing else. How much position receives depends on how a rotation is "
    "written and on where an added table has its zero, and absolute values by layer add up to "
    "more than the logit where a layer has negative relevance.",
    71: "Half to a gate and half to its signal conserves for every gated unit. For bilinear and "
    "ReLU gates it is half of gradient x input. A SiLU that is multiplied from the other side "
    "takes more. A soft cap by the identity rule conserves, and bounds what a softmax "
    "absorbs.",
    72: "MambaLRP holds what a state space model selects, and passes on all relevance as epsilon "
    "-> 0, with no residual. It agrees with the matrix of attention that the recurrence "
    "amounts to. Halves at every product would discount tokens by their distance. A token "
    "that only selects gets nothing.",
    73: "RelP is CP-LRP per unit of activation, and DePass is CP-LRP carried forwards: exact "
    "where a patch keeps what is held, and different from each other at gates. Gradient x "
    "input counts a product once per factor, which a ledger by operation shows.",
    74: "As epsilon -> 0, a router of experts that is held passes on all relevance, and is "
    "explained alike however its weights are computed. With halves its softmax absorbs "
    "relevance, experts that were not chosen may receive some, and a router that changes "
    "nothing takes half. RMSNorm with its root held survives rotations and folded weights.",
    75: "The value of a function at 0 is a fixed term, as a bias is. So numbers and tensors are "
    "explained alike, all spellings of a sum or of a sigmoid get one relevance, and there is "
    "no pole at 0. By the identity rule on a whole function that is not 0 at 0, relevance is "
    "conserved, but multiplied without bound.",
}
"""By number of the theorem."""
