"""The store of hidden states of frozen layers: computed once, read in every epoch.

`store` writes and reads it, `extract` computes the states, and `maintenance` lists, verifies and clears stores. `dataset`
joins examples with their windows and states. `training` decides whether a recipe may use a store.
"""
