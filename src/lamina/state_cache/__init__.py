"""The store of frozen layers' hidden states: computed once, read in every epoch.

`store` writes and reads it, `extract` computes what it holds, and `maintenance` lists, verifies and clears stores. `dataset`
joins examples with their windows and states. `training` decides whether a recipe may use a store.
"""
