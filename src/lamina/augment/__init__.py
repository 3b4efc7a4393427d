"""Training examples made from training examples: pure functions of examples and a seed, by rules, without a model.

Here belong EDA's noise (`eda`), synthetic unanswerable questions (`unanswerable` with its rules), and the examples of one
epoch (`per_epoch`). Reading files, splits and windows belong in `lamina.data`. Nothing here imports torch.
"""
