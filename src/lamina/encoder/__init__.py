"""One encoder for the BERT families: BERT, ELECTRA, ALBERT, RoBERTa, XLM-R and DistilBERT.

`blocks` is the network, `families` the names of weights and settings in checkpoints, `load` finds and loads encoders. Adapters,
LoRA and freezing are functions that are applied once. What comes after the hidden layers is in `mixers` and `heads`.
"""
