"""`lamina tune`: searches for the settings of a recipe that score best on its held-out split.

`space` reads what to vary, `trials` keeps the trials (through Optuna), `worker_pool` runs the `worker` processes that train
them, and `search` leads. No code here reads a dev set. Comparing many recipes and seeds does not belong here.
"""
