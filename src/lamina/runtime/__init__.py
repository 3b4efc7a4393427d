"""Trained models without torch: the engines that run an exported model, and what is needed to use its outputs.

`engine` is the protocol that every engine follows. `ready` is a model with its settings, tokenizer and decisions. `manifest`
describes the graphs of a folder, `weights` reads their weights, and `graph_engine` runs them. `choose` picks the fastest
engine. Exporting needs torch; it is in `runs`.
"""
