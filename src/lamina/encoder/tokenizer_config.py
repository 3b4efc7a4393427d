"""Write the tokenizer_config.json that `transformers` reads beside a tokenizer.json."""

from __future__ import annotations

from lamina.data.tokenizer import Tokenizer

SPECIAL = {  # transformers' name of each special token -> its spellings in vocabularies
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "mask_token": ("[MASK]", "<mask>"),
}


def tokenizer_config(tokenizer: Tokenizer, length: int, *, types: bool) -> dict[str, object]:
    """Return the values of tokenizer_config.json. `types`: whether the model reads token types."""
    names = {
        "cls_token": tokenizer.token_of(tokenizer.layout.before[0]),
        "sep_token": tokenizer.token_of(tokenizer.layout.after[-1]),
    }
    for role, spellings in SPECIAL.items():
        if name := next((spelling for spelling in spellings if tokenizer.id_of(spelling) is not None), None):
            names[role] = name
    inputs = ["input_ids", "token_type_ids", "attention_mask"] if types else ["input_ids", "attention_mask"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": length,
        "padding_side": "right",
        "model_input_names": inputs,
        **names,
    }
