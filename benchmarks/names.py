"""Names that a user may type, for help and completion, which load nothing else."""

MODELS = ("embedded", "embedded-lm", "embedded-english")
DATASETS = ("embedded", "sst2", "imdb")
ENGINES = ("local", "ray")
ON_TEXTS = {
    "table2": "table2",
    "special": "special_tokens",
    "figure2": "figure2",
    "sensitivity": "open_choices",
    "softmax": "softmax_by_layer",
    "tradeoff": "trade_off",
}
"""Table about maps of labelled texts -> its module in ``benchmarks.experiments``."""
EXPERIMENTS = {
    "theorems": "theorems",
    "table1": "table1.digits",
    "table1-mnist": "table1.mnist",
    **ON_TEXTS,
    "causes": "causes.measure",
    "patching": "patching.experiment",
    "time": "time_by_length",
    "evaluate": "faithfulness",
}
"""Every table in the order of a report -> its module, which ends in a record of it."""
TABLES = tuple(name for name in EXPERIMENTS if name != "evaluate")  # "evaluate" is a command
DEFAULT_TABLES = ("theorems", "table1", "table2", "figure2", "time")
