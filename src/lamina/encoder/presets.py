"""Shapes of known encoders, for random weights: to count, plan and test without a download."""

from __future__ import annotations

from dataclasses import replace

from lamina.encoder.blocks import EncoderConfig

BERT_BASE = EncoderConfig(
    family="bert",
    layers=12,
    hidden=768,
    heads=12,
    intermediate=3072,
    vocab=30522,
    positions=512,
    types=2,
    embedding=768,
)
ELECTRA_SMALL = EncoderConfig(
    family="electra",
    layers=12,
    hidden=256,
    heads=4,
    intermediate=1024,
    vocab=30522,
    positions=512,
    types=2,
    embedding=128,
    pooler=False,
)
ALBERT_BASE = EncoderConfig(
    family="albert",
    layers=12,
    hidden=768,
    heads=12,
    intermediate=3072,
    vocab=30000,
    positions=512,
    types=2,
    embedding=128,
    activation="gelu_new",
    dropout=0.0,
    shared=True,
)

PRESETS = {
    "bert-base-cased": replace(BERT_BASE, vocab=28996),
    "bert-base-uncased": BERT_BASE,
    "bert-large-uncased": replace(BERT_BASE, layers=24, hidden=1024, heads=16, intermediate=4096, embedding=1024),
    "bert-base-multilingual-cased": replace(BERT_BASE, vocab=119547),
    "albert-base-v2": ALBERT_BASE,
    "albert-kor-base": replace(ALBERT_BASE, vocab=42000, positions=256),
    "electra-small": ELECTRA_SMALL,
    "koelectra-base-v2": replace(BERT_BASE, family="electra", vocab=32200, pooler=False),
    "koelectra-small-v3": replace(ELECTRA_SMALL, vocab=35000),
    "ms-marco-MiniLM-L12-v2": replace(BERT_BASE, hidden=384, intermediate=1536, embedding=384),
    "multilingual-e5-small": replace(BERT_BASE, hidden=384, intermediate=1536, vocab=250037, embedding=384),
    "tiny": replace(BERT_BASE, layers=2, hidden=64, heads=2, intermediate=128, embedding=64),
}
