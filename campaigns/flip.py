"""Single flipped bits: each is found, or changes no answer.

A case flips one bit in a file of a finished run, of a checkpoint's weights below a run, of the reader in the package, or of
a store of hidden states. Then it loads the folder and answers. Allowed are a clear error, or the same output to the last bit.
For a store, the states must be the same, because a damaged shard is computed again.

    python -m campaigns.flip --size 1000 --log flip.jsonl --out results/hardening/flip.json
"""

from __future__ import annotations

import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests import tiny

from campaigns import material
from campaigns.common import Campaign, Failure, HangError, limited, one_line, parser
from lamina.errors import LaminaError

QUESTIONS = [material.QUESTION, "When did it burn down?", "Who painted the mill?"]


class Flips:
    """The folders whose bits are flipped, made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._answers: dict[str, object] = {}
        self.kinds: dict[str, Callable[[Random, Path], tuple[str, bool]]] = {
            "run": lambda draw, work: self._model("run", draw, work),
            "encoder": lambda draw, work: self._model("encoder", draw, work),
            "shipped": lambda draw, work: self._model("shipped", draw, work),
            "store": self._store,
        }

    def prepare(self) -> None:
        """Make the folders."""
        import lamina
        from lamina.utils.shipped import READER, model_folder

        recipe = material.write_recipe(self.folder / "data")
        lamina.train(recipe, self.folder / "run", settings={"train.epochs": 0.25})
        frozen = {"train.epochs": 0.25, "tune.layers": 0}
        lamina.train(recipe, self.folder / "frozen", settings=frozen)  # its encoder stays in another folder
        self._bases = {"run": self.folder / "run", "encoder": self.folder / "frozen", "shipped": model_folder(READER)}
        for kind, base in self._bases.items():
            self._answers[kind] = self._answer(base)
        from tests.state_cache import test_store

        self._states = self._read_store()
        _ = test_store

    def _answer(self, folder: Path) -> object:
        import lamina

        reader = lamina.load(folder, device="cpu", threads=1)
        return [repr(reply) for reply in reader.replies(QUESTIONS, [material.CONTEXT], top_k=2)]

    def _model(self, kind: str, draw: Random, work: Path) -> tuple[str, bool]:
        """Flip a bit of a model's folder, or of the encoder that its run names."""
        if kind == "encoder":
            original = self.folder / "data" / "encoder" / "model.safetensors"
        else:
            known = [path for path in sorted(self._bases[kind].iterdir()) if path.name in READ]
            weights = [path for path in known if path.suffix == ".safetensors"]
            original = draw.choice(weights if draw.random() < 0.5 else known)
        data = original.read_bytes()
        flipped = flip(data, draw)
        if kind == "encoder":
            original.write_bytes(flipped)
            try:
                return original.name, self._answer(self._bases[kind]) == self._answers[kind]
            finally:
                original.write_bytes(data)
        folder = material.copied(self._bases[kind], work, original.name, flipped)
        return original.name, self._answer(folder) == self._answers[kind]

    def _store(self, draw: Random, work: Path) -> tuple[str, bool]:
        """Flip a bit of a file of a store, and read all states."""
        files = [path for path in sorted((self.folder / "store").rglob("*")) if path.suffix in (".bin", ".json")]
        original = draw.choice(files)
        data = original.read_bytes()
        original.write_bytes(flip(data, draw))
        try:
            return original.name, self._read_store() == self._states
        finally:
            original.write_bytes(data)

    def _read_store(self) -> object:
        from tests.state_cache.test_store import WINDOWS, contents, opened

        from lamina.state_cache.dataset import stored_batch

        store = opened(self.folder / "store", contents())
        try:
            rows = list(range(len(WINDOWS)))
            return [state.numpy().tobytes() for state in store.read(rows, stored_batch(WINDOWS, rows, None).mask).states]
        finally:
            store.close()


READ = ("model.safetensors", "tokenizer.json", "encoder.json", "recipe.json", "run.json", "onnx.json", "model.onnx")


def flip(data: bytes, draw: Random) -> bytes:
    """Return bytes with one bit flipped."""
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]


def run(campaign: Campaign) -> Campaign:
    """Run all cases; the kinds of files take turns."""
    import torch

    torch.set_num_threads(1)
    assert tiny  # it sets the threads too
    with tempfile.TemporaryDirectory(prefix="flip-") as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flips = Flips(Path(place))
        flips.prepare()
        names = list(flips.kinds)
        for case in range(campaign.size):
            if campaign.over:
                break
            kind = names[case % len(names)]
            with tempfile.TemporaryDirectory(dir=place) as work:
                one_case(campaign, flips, kind, case, Path(work))
    return campaign


def one_case(campaign: Campaign, flips: Flips, kind: str, case: int, work: Path) -> None:
    """Flip one bit and count what followed."""
    try:
        with limited(processor=60):
            name, same = flips.kinds[kind](campaign.draw(case), work)
    except LaminaError as error:
        problem = one_line(error)
        campaign.count(kind, "found") if problem is None else campaign.fail(Failure(case, kind, "no clear line", problem))
    except HangError as error:
        campaign.fail(Failure(case, kind, "hang", str(error)))
    except Exception:
        campaign.fail(Failure(case, kind, "traceback", traceback.format_exc()[-1500:]))
    else:
        campaign.count(kind, "same output") if same else campaign.fail(Failure(case, kind, "wrong", f"{name}: other output"))


def main() -> int:
    given = parser(__doc__ or "", size=300).parse_args()
    return run(Campaign("flip", given.seed, given.size, given.log, given.at_most)).finish(given.out)


if __name__ == "__main__":
    sys.exit(main())
