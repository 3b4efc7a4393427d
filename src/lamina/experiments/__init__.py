"""Work with many runs: search for settings, combine and average runs, compare them, analyse their layer weights.

Each command has a module or package. Training and scoring a single run do not belong here: see `training` and `scoring`.
"""
