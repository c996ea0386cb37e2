"""Attribution methods: (model, batch, choose, options) -> relevance, target, logit, details."""
