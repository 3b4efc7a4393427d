"""Trains the small model in `fables/`: a vocabulary and two layers of their own, fine-tuned on the bundled corpus.

    python tests/golden/train.py

Its weights are kept as float16; the golden answers were made from exactly these files. This is how they came to be.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import tokenizers
from safetensors.numpy import load_file, save_file
from tokenizers import normalizers, pre_tokenizers, processors, trainers

import lamina
from lamina.config.parse import parse_recipe
from lamina.data import fables
from lamina.runs.export import export
from lamina.utils.progress import Lines

HERE = Path(__file__).resolve().parent
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SHAPE = {
    "model_type": "bert",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.0,
}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = train_tokenizer()
        tokenizer.save(str(folder / "tokenizer.json"))
        (folder / "config.json").write_text(json.dumps(SHAPE | {"vocab_size": tokenizer.get_vocab_size()}))
        recipe = parse_recipe(
            {
                "data": {"train": "fables/train", "dev": "fables/dev"},
                "encoder": {"model": str(folder), "pretrained": False},
                "train": {"epochs": 12, "lr": 2e-3, "batch_tokens": 2048, "threads": 2, "evaluate_every": 4},
            }
        )
        run = lamina.train(recipe, folder / "run", progress=Lines())
        print(run.scores.read_text())
        shutil.rmtree(HERE / "fables", ignore_errors=True)
        export(lamina.load(run.path, device="cpu").trained, HERE / "fables")
    weights = HERE / "fables" / "model.safetensors"
    save_file({key: value.astype("float16") for key, value in load_file(weights).items()}, weights, {"format": "pt"})


def train_tokenizer() -> tokenizers.Tokenizer:
    corpus = fables.make("train")
    paragraphs = [paragraph for article in corpus["data"] for paragraph in article["paragraphs"]]
    texts = [p["context"] for p in paragraphs] + [q["question"] for p in paragraphs for q in p["qas"]]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=2500, special_tokens=SPECIALS))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


if __name__ == "__main__":
    main()
