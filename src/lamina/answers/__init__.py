"""From a model's outputs to answers, in numpy alone.

`decode` finds the n best spans, `sentences` the classes and scores. `across_contexts` and `ensembles` join several contexts or
models. `decisions` hold the fitted thresholds and calibrations. Metrics are in `scoring`; nothing here runs a model or imports
torch.
"""
