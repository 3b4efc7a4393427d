"""Finished runs: `load` a model with its decisions, `export` it, open the run's scores and outputs (`scored_run`).

`utils.run_folder` has the layout of a run folder, `training` writes one, and `experiments` compares several.
"""
