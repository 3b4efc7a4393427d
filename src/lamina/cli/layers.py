"""The command that shows which layers a mixer uses for which questions."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.app import (
    DATA,
    OUTPUT,
    DataOption,
    Device,
    Duplicates,
    Json,
    ModelArgument,
    Pickle,
    Threads,
    load_model,
    print_json,
)

commands = typer.Typer()


@commands.command()
def layers(
    run: ModelArgument,
    data: DataOption,
    example: Annotated[
        str | None, typer.Option("--example", help="Show the question of this id token by token.", rich_help_panel=DATA)
    ] = None,
    questions: Annotated[
        int | None, typer.Option("--questions", min=1, help="Read only the first so many questions.", rich_help_panel=DATA)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write into this folder. Without it: MODEL/layers.", rich_help_panel=OUTPUT),
    ] = None,
    duplicate_ids: Duplicates = "error",
    as_json: Json = False,
    device: Device = "auto",
    threads: Threads = None,
    allow_pickle: Pickle = False,
) -> None:
    """Show the weight of each layer, for the mixers learned, dot, multiplicative and encoder."""
    from lamina.data.sources import load_examples
    from lamina.data.splits import first_questions
    from lamina.experiments import layer_weights
    from lamina.utils.files import expanded
    from lamina.utils.progress import shown

    reader = load_model(run, device, threads, allow_pickle=allow_pickle, backend="torch")
    examples = first_questions(load_examples(data, duplicate_ids=duplicate_ids, answers="ignore"), questions)
    with shown() as progress:
        seen = layer_weights.look_at_layers(reader.trained, examples, example=example, progress=progress)
    files = layer_weights.write_layers(seen, expanded(run) / "layers" if out is None else out)
    if as_json:
        strip = asdict(seen.example) | {"weights": seen.example.weights.tolist()}
        print_json(asdict(seen) | {"example": strip, "files": [str(file) for file in files]})
        return
    print("\n".join(layer_weights.table_lines(seen)))
    print(f"\nquestion {seen.example.id}: {seen.example.question}")
    print(f"answer: {'no answer' if seen.example.answer is None else seen.example.answer}")
    print("\n".join(layer_weights.strip_lines(seen.example)))
    print(f"written: {', '.join(map(str, files))}")
