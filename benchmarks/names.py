"""Names that a user may type, for help and completion, which load nothing else."""

MODELS = ("embedded", "embedded-lm")
DATASETS = ("embedded", "sst2", "imdb")
COMPOSITES = ("attnlrp", "cp-lrp")
ENGINES = ("local", "ray")
ON_TEXTS = ("table2", "special", "figure2", "sensitivity", "softmax")
DEFAULT_TABLES = ("theorems", "table1", "table2", "figure2", "time")
TABLES = ("theorems", "table1", "table1-mnist", *ON_TEXTS, "causes", "time")
