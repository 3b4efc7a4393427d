"""`lamina tune`: search for the settings of a recipe that score best on its held-out split.

`space` reads the fields to vary, and `trials` stores the trials with Optuna. `worker_pool` runs the `worker` processes that
train them, and `search` controls the search. No code here reads a dev set. Comparing recipes and seeds does not belong here.
"""
