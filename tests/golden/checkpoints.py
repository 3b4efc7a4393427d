"""Small question-answering checkpoints of every family and kind of tokenizer, the same on every machine.

They are written with numpy, safetensors and tokenizers alone. So the tests read the same files as the script that wrote the
golden answers with an old `transformers`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from safetensors.numpy import save_file
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

HIDDEN, LAYERS, HEADS, INNER, POSITIONS = 32, 2, 4, 48, 512
WORDS = "the of and a in to was is by on mill river ada thorn built who what when where 강 세워 다 한 국 بيت كتاب old stone"
LETTERS = "".join(
    sorted(
        set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,;:!?'\"()-[]é\u0301ü\u0308")
        | set("가나다라마바사아자차카타파하각을를이은는에서의대한민국서울")
        | set("ابتثجحخدذرزسشصضطظعغفقكلمنهوي")
    )
)


def names() -> list[str]:
    return list(_KINDS)


def write(name: str, folder: Path) -> Path:
    """Writes the checkpoint of that name into `folder`."""
    model_type, make_tokenizer, specials = _KINDS[name]
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    inputs = ["input_ids", "attention_mask"] + (["token_type_ids"] if model_type in ("bert", "electra", "albert") else [])
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "model_max_length": POSITIONS,
                "model_input_names": inputs,
                **dict(zip(("cls_token", "sep_token", "pad_token", "unk_token"), specials, strict=True)),
            }
        )
    )
    vocab = tokenizer.get_vocab_size()
    pad = specials.index("[PAD]" if "[PAD]" in specials else "<pad>")  # the first entries of the vocabulary
    config = _config(model_type, vocab, pad)
    (folder / "config.json").write_text(json.dumps(config))
    random = np.random.default_rng(zlib.crc32(name.encode()))
    save_file(
        {key: _weight(random, key, shape) for key, shape in _shapes(model_type, vocab, config).items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    return folder


def _weight(random: np.random.Generator, key: str, shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Large enough that answers differ clearly, so that no two libraries can disagree on the best."""
    values = random.normal(0, 2.5 if key == "qa_outputs.weight" else 0.3, shape)
    if "norm" in key.lower() and key.endswith("weight"):
        values = 1 + 0.1 * values
    return values.astype(np.float32)


def _config(model_type: str, vocab: int, pad: int) -> dict[str, Any]:
    capital = {
        "bert": "Bert",
        "electra": "Electra",
        "albert": "Albert",
        "roberta": "Roberta",
        "xlm-roberta": "XLMRoberta",
        "distilbert": "DistilBert",
    }[model_type]
    shared = {
        "architectures": [f"{capital}ForQuestionAnswering"],
        "model_type": model_type,
        "vocab_size": vocab,
        "pad_token_id": pad,
    }
    if model_type == "distilbert":
        sizes = {"dim": HIDDEN, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": INNER}
        return shared | sizes | {"max_position_embeddings": POSITIONS}
    roberta = model_type in ("roberta", "xlm-roberta")
    return shared | {
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "max_position_embeddings": POSITIONS + (pad + 1 if roberta else 0),
        "type_vocab_size": 1 if roberta else 2,
        "embedding_size": 16,
        "layer_norm_eps": 1e-5,
    }


def _shapes(model_type: str, vocab: int, config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The names and shapes of all weights, as the family's published checkpoints have them."""
    prefix = {"xlm-roberta": "roberta"}.get(model_type, model_type)
    narrow = 16 if model_type in ("electra", "albert") else HIDDEN
    shapes: dict[str, tuple[int, ...]] = {}

    def linear(name: str, rows: int, columns: int) -> None:
        shapes[f"{prefix}.{name}.weight"] = (rows, columns)
        shapes[f"{prefix}.{name}.bias"] = (rows,)

    def norm(name: str, width: int) -> None:
        shapes[f"{prefix}.{name}.weight"] = shapes[f"{prefix}.{name}.bias"] = (width,)

    shapes[f"{prefix}.embeddings.word_embeddings.weight"] = (vocab, narrow)
    shapes[f"{prefix}.embeddings.position_embeddings.weight"] = (config["max_position_embeddings"], narrow)
    if model_type != "distilbert":
        shapes[f"{prefix}.embeddings.token_type_embeddings.weight"] = (config["type_vocab_size"], narrow)
    norm("embeddings.LayerNorm", narrow)
    if model_type == "electra":
        linear("embeddings_project", HIDDEN, narrow)
    if model_type == "albert":
        linear("encoder.embedding_hidden_mapping_in", HIDDEN, narrow)
    for block in range(1 if model_type == "albert" else LAYERS):
        for name, rows, columns in _block(model_type, block):
            if columns:
                linear(name, rows, columns)
            else:
                norm(name, rows)
    return shapes | {"qa_outputs.weight": (2, HIDDEN), "qa_outputs.bias": (2,)}


def _block(model_type: str, number: int) -> list[tuple[str, int, int]]:
    """Modules of a block with their sizes; 0 columns is a norm."""
    if model_type == "distilbert":
        base = f"transformer.layer.{number}"
        square = [f"{base}.attention.{part}" for part in ("q_lin", "k_lin", "v_lin", "out_lin")]
        norms, up, down = [f"{base}.sa_layer_norm", f"{base}.output_layer_norm"], f"{base}.ffn.lin1", f"{base}.ffn.lin2"
    elif model_type == "albert":
        base = "encoder.albert_layer_groups.0.albert_layers.0"
        square = [f"{base}.attention.{part}" for part in ("query", "key", "value", "dense")]
        norms, up, down = [f"{base}.attention.LayerNorm", f"{base}.full_layer_layer_norm"], f"{base}.ffn", f"{base}.ffn_output"
    else:
        base = f"encoder.layer.{number}"
        square = [*(f"{base}.attention.self.{part}" for part in ("query", "key", "value")), f"{base}.attention.output.dense"]
        norms = [f"{base}.attention.output.LayerNorm", f"{base}.output.LayerNorm"]
        up, down = f"{base}.intermediate.dense", f"{base}.output.dense"
    return [
        *((name, HIDDEN, HIDDEN) for name in square),
        (up, INNER, HIDDEN),
        (down, HIDDEN, INNER),
        *((name, HIDDEN, 0) for name in norms),
    ]


def _word_pieces(*, lowercase: bool) -> tokenizers.Tokenizer:
    letters = sorted(set(LETTERS.lower() if lowercase else LETTERS))
    entries = [*_BERT, *letters, *(f"##{letter}" for letter in letters), *WORDS.split()]
    vocab = {entry: number for number, entry in enumerate(dict.fromkeys(entries))}
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=None)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = _bert_pair(vocab)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in _BERT])
    return tokenizer


def _byte_pairs() -> tokenizers.Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    entries, merges = [*_ROBERTA, *alphabet], []
    for word in WORDS.split():
        if word.isascii():
            so_far = "Ġ"
            for letter in word:
                merges.append((so_far, letter))
                so_far += letter
                entries.append(so_far)
    vocab = {entry: number for number, entry in enumerate(dict.fromkeys(entries))}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab, list(dict.fromkeys(merges))))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", vocab["</s>"]), ("<s>", vocab["<s>"]))
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in _ROBERTA])
    return tokenizer


def _unigrams(specials: tuple[str, ...], *, lowercase: bool) -> tokenizers.Tokenizer:
    letters = sorted(set(LETTERS.lower() if lowercase else LETTERS))
    pieces = [*((token, 0.0) for token in specials), ("▁", -6.0)]
    pieces += [(letter, -9.0) for letter in letters] + [(f"▁{word}", -4.0) for word in WORDS.split()]
    tokenizer = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=3))
    steps = [normalizers.NFKC(), normalizers.Lowercase()] if lowercase else [normalizers.NFKC()]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    vocab = tokenizer.get_vocab()
    if specials[0] == "[CLS]":
        tokenizer.post_processor = _bert_pair(vocab)
    else:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>",
            pair="<s> $A </s> </s> $B </s>",
            special_tokens=[("<s>", vocab["<s>"]), ("</s>", vocab["</s>"])],
        )
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in specials])
    return tokenizer


def _bert_pair(vocab: dict[str, int]) -> processors.PostProcessor:
    return processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
    )


_BERT = ("[CLS]", "[SEP]", "[PAD]", "[UNK]")
_ROBERTA = ("<s>", "</s>", "<pad>", "<unk>")
_KINDS: dict[str, tuple[str, Callable[[], tokenizers.Tokenizer], tuple[str, ...]]] = {
    "bert-uncased": ("bert", lambda: _word_pieces(lowercase=True), _BERT),
    "bert-cased": ("bert", lambda: _word_pieces(lowercase=False), _BERT),
    "electra": ("electra", lambda: _word_pieces(lowercase=True), _BERT),
    "albert": ("albert", lambda: _unigrams(_BERT, lowercase=True), _BERT),
    "roberta": ("roberta", _byte_pairs, _ROBERTA),
    "xlm-roberta": ("xlm-roberta", lambda: _unigrams(_ROBERTA, lowercase=False), _ROBERTA),
    "distilbert": ("distilbert", lambda: _word_pieces(lowercase=False), _BERT),
}
