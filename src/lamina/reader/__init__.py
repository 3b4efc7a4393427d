"""The `Reader`, which `lamina.load` returns: a trained model that answers, classifies, compares and embeds.

`load` has the class. `questions` answers from texts, `sentences` classifies and compares, `trained` reads whole datasets.
`documents` reads files, and `search` answers from many of them. `saving` writes a model with its `model_card`. `pipeline` is
the drop-in for transformers. Printing is in `cli`.
"""
