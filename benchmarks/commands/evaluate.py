"""``lrp-axioms evaluate``: how faithful maps of relevance from any source are to a model."""

from pathlib import Path
from typing import Annotated

import typer

from lrp_axioms.benchmarks.commands.console import (
    check_folder,
    check_names,
    loading,
    mendable,
    track,
)
from lrp_axioms.benchmarks.commands.options import DTYPES, Dtype, Model
from lrp_axioms.benchmarks.commands.output import answer, note, of_result, present

SOME = "r, tau, MoRF, LeRF, Δ, 'top drop', LDS, explained, 'soft sufficiency', and others"


def evaluate(
    file: Annotated[
        Path,
        typer.Argument(
            help="Parquet with text and relevance (a list), and optionally method and target; or a "
            "folder of such files, as `attribute` writes them."
        ),
    ],
    *,
    model: Model = "embedded",
    measure: Annotated[
        list[str] | None, typer.Option(help=f"{SOME}; may be given again. Default: all.")
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder for the result, as in reproduce.")] = Path(
        "results"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random subsets.")] = 0,
    dtype: Dtype = "float32",
    device: Annotated[str, typer.Option(help="As in explain.")] = "cpu",
):
    """Rank methods by how faithful their maps are to a model, with paired intervals."""
    with mendable():
        check_names("--dtype", [dtype], DTYPES)
        check_folder(output)
        with loading("the model"):
            from lrp_axioms.benchmarks.experiments import faithfulness
            from lrp_axioms.benchmarks.sources import models

            maps = faithfulness.read(file)
            classifier = models.load(model, device=device, dtype=dtype)
        measures = measure or tuple(faithfulness.MEASURES)
        name = file.resolve().name if file.is_dir() else file.stem
        result = faithfulness.judge(
            classifier, maps, name=name, measures=measures, seed=seed, track=track
        )
    with mendable(f"--output {output}"):
        output.mkdir(parents=True, exist_ok=True)
        wrote = [output / f"{result.name}.{kind}" for kind in ("json", "parquet")]
        if wrote[0].exists():
            note(f"{wrote[0]} of an earlier call is replaced")
        result.write(output)
    answer(name=result.name, rows=result.rows, notes=result.notes, wrote=wrote)
    present(*of_result(result), wrote=wrote)
