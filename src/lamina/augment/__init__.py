"""Make new training examples from training examples, by rules and a seed, without a model.

This room holds EDA's noise (`eda`), synthetic unanswerable questions (`unanswerable` with its rules), and the examples of one
epoch (`per_epoch`). Files, splits and windows belong in `lamina.data`. Nothing here imports torch.
"""
