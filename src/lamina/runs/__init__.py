"""Finished runs: `load` a model with its decisions, `export` it, open the run's scores and outputs (`scored_run`).

The layout of a run folder is in `utils.run_folder`; what writes one is in `training`; what compares several is in
`experiments`.
"""
