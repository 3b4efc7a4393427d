"""One encoder for the BERT families: BERT, ELECTRA, ALBERT, RoBERTa, XLM-R and DistilBERT.

`blocks` is the network. `families` has the names of weights and settings in checkpoints. `load` finds and loads encoders.
`adapters` and `freezing` change a loaded encoder once, before training. Modules above the hidden layers are in `mixers`
and `heads`.
"""
