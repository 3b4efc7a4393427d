"""Work with many runs: search for settings, combine and average runs, compare and analyse them, and their layer weights.

Each command has a module or package. Training and scoring a single run belong in `training` and `scoring`.
"""
