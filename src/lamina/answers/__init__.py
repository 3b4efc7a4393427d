"""Turn a model's outputs into answers, with numpy only.

`decode` finds the n best spans, `sentences` the classes and scores. `across_contexts` and `ensembles` merge several contexts or
models. `decisions` holds the fitted thresholds and calibrations. Metrics are in `scoring`. Nothing here runs a model or
imports torch.
"""
