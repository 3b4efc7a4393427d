"""A reader on disk and on the hub: a run folder without the state of its training, with a model card."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path, PureWindowsPath
from typing import Any, Literal

from safetensors.torch import save_file

from lamina.answers.decisions import Decision
from lamina.encoder.blocks import EncoderConfig
from lamina.encoder.families import run_name
from lamina.encoder.files import tensor_names
from lamina.encoder.hub import line
from lamina.encoder.load import folder_of
from lamina.encoder.packing import pack
from lamina.errors import LaminaError
from lamina.model.weights import Weights, trained_weights
from lamina.reader.model_card import is_calibrated, model_card
from lamina.runs.load import Trained
from lamina.runs.onnx_folder import GraphOptions, write_graphs
from lamina.tasks.kind import ScoreTable
from lamina.training.task_group import decisions_json
from lamina.utils.files import read_json, replacing, write_atomically, write_json
from lamina.utils.new_folders import new_folder
from lamina.utils.run_folder import FORMAT, Run, RunInfo, versions

__all__ = ["Precision", "push", "save"]

Precision = Literal["float32", "int8"]


def save(
    trained: Trained,
    folder: Path,
    *,
    name: str | None = None,
    license: str | None = None,
    weights: Precision = "float32",
    graphs: GraphOptions | None = None,
) -> Run:
    """Write a folder that `lamina.load` opens; return its paths.

    Args:
        trained: The model, its tokenizer and its decisions.
        folder: The new folder; it may exist if it is empty.
        name: What the model card tells others to load; None for the name of the folder.
        license: The license of the model, for its card.
        weights: "int8" rounds the weights to 8 bits, and leaves out a pooler that no head reads.
        graphs: Which graphs to write too, for the runtime without torch. Graphs that hold their weights replace the weights.
    """
    with new_folder(folder) as draft:
        _write(trained, draft, name or folder.resolve().name, license, weights, graphs)
    return Run(folder)


def _write(
    trained: Trained, folder: Path, name: str, license: str | None, weights: Precision, graphs: GraphOptions | None
) -> None:
    """Write the files of a saved model into an empty folder."""
    run = Run(folder)
    stored, config = _weights(trained), trained.model.encoder.config
    if weights == "int8":
        stored, config = _packed(trained, stored)
    if graphs is None or not graphs.inside:
        with replacing(run.model) as draft:
            save_file({key: value.detach().cpu().contiguous() for key, value in stored.items()}, draft)
    write_json(run.recipe, without_folders(trained.recipe.model_dump(mode="json")))
    write_json(run.encoder, config.to_json())
    write_atomically(run.tokenizer, trained.tokenizer.definition.encode())
    scores = _scores(trained)
    if scores is not None:
        write_json(run.scores, scores)
    card = model_card(
        trained.recipe,
        scores,
        name=name,
        parameters=sum(parameter.numel() for parameter in trained.model.parameters()),
        version=versions()["lamina-qa"],
        license=license,
        decisions=_decisions(trained),
    )
    write_atomically(folder / "README.md", card.encode())
    if graphs is not None:
        write_graphs(trained, folder, graphs)
    run.finish(without_folders({**_info(trained), "weights": weights}))  # last: a folder with run.json is complete


def push(
    trained: Trained,
    repo_id: str,
    *,
    private: bool,
    token: str | None,
    revision: str | None,
    commit_message: str,
    license: str | None,
) -> str:
    """Save into a temporary folder, upload it to the hub, and return the address of the commit.

    Files of an older model that the new one does not have are deleted.
    """
    from huggingface_hub import HfApi

    token = token.strip() if token else token
    with tempfile.TemporaryDirectory() as temporary:
        save(trained, Path(temporary), name=repo_id, license=license)
        hub = HfApi(token=token)
        try:
            hub.create_repo(repo_id, private=private, exist_ok=True)
            if revision is not None:
                hub.create_branch(repo_id, branch=revision, exist_ok=True)
            done = hub.upload_folder(
                repo_id=repo_id,
                folder_path=temporary,
                revision=revision,
                commit_message=commit_message,
                delete_patterns=["*"],  # files that are in the folder too are kept
            )
        except Exception as error:  # the hub's client raises dozens of kinds, and each means that the upload failed
            what = f"cannot be uploaded to the hub ({line(error, token)})"
            raise LaminaError(f"{repo_id}: {what}. Fix: check the name and log in with `hf auth login`") from None
    return str(done.commit_url)


def without_folders(value: Any) -> Any:
    """Return JSON values whose absolute paths are replaced by the names of their files: others have no such folders.

    >>> without_folders({"train": "/home/me/train.csv", "dev": "~/dev.csv", "tasks": ["C:\\\\my\\\\a.csv", "fables/dev"]})
    {'train': 'train.csv', 'dev': 'dev.csv', 'tasks': ['a.csv', 'fables/dev']}
    """
    if isinstance(value, dict):
        return {key: without_folders(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_folders(item) for item in value]
    if isinstance(value, str) and (value.startswith(("/", "~")) or PureWindowsPath(value).is_absolute()):
        return PureWindowsPath(value).name or value
    return value


def _weights(trained: Trained) -> Weights:
    """Return what to store: the trained weights if the encoder below can be loaded again anywhere, else all weights."""
    whole = dict(trained.model.state_dict())
    run = trained.run
    if run is None or not run.model.is_file() or set(tensor_names((run.model,))) >= whole.keys():
        return whole
    local = folder_of(trained.recipe.encoder.model) is not None or run.read_info().get("encoder", {}).get("folder")
    return whole if local else trained_weights(trained.model)


def _packed(trained: Trained, weights: Weights) -> tuple[Weights, EncoderConfig]:
    """Return the weights in 8 bits and the shape of their encoder, without a pooler that no head reads."""
    config, pooler = trained.model.encoder.config, run_name("pooler.")
    whole = all(run_name(name) in weights for name in trained.model.encoder.state_dict())
    if whole and not any(task.head.pooled for task in trained.recipe.tasks.values()):
        config = replace(config, pooler=False)
        weights = {name: value for name, value in weights.items() if not name.startswith(pooler)}
    return pack(weights), config


def _scores(trained: Trained) -> ScoreTable | None:
    """Return the scores of the run on its dev set, if there are any. A model that was calibrated later has others."""
    if trained.run is None or not trained.run.scores.is_file() or any(map(is_calibrated, _decisions(trained).values())):
        return None
    scores: ScoreTable = read_json(trained.run.scores)
    return scores


def _decisions(trained: Trained) -> dict[str, Decision]:
    return {name: trained.decision(name) for name in trained.recipe.tasks}


def _info(trained: Trained) -> RunInfo:
    """Return the content of run.json."""
    old: RunInfo = {} if trained.run is None else trained.run.read_info()
    encoder = old.get("encoder", {})
    return {
        **old,
        "format": FORMAT,
        "versions": old.get("versions", versions()),
        "seed": trained.recipe.train.seed,
        "encoder": {"name": encoder.get("name", trained.recipe.encoder.model), "sha256": encoder.get("sha256")},
        "language": trained.language,
        "tasks": decisions_json(_decisions(trained)),
        "finished": True,
    }
