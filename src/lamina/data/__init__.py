"""Files -> examples -> windows -> batches: all that happens to data before a model sees it.

Here belong the types of examples (`examples`, `labels`), the readers of files (`squad`, `multi_context`, `sentences` over
`tabular`), the names of data sets (`sources`), splits, the tokenizer, windows, search by BM25 and the generated corpus
`fables`. Changed or synthetic examples belong in `lamina.augment`, decoding and thresholds in `lamina.answers`, metrics in
`lamina.scoring`. Only `batches` and `hidden_states` import torch.
"""
