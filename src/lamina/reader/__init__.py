"""A trained model at work: what `lamina.load` returns.

`load` makes a `Reader`; `questions` answers from texts, `sentences` classifies and compares, `trained` evaluates and predicts
data sets. `documents` reads files, `search` asks many of them, `pipeline` is the drop-in for transformers. Printing is in
`cli`.
"""
