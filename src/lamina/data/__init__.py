"""Files -> examples -> windows -> batches: all that happens to data before a model reads it.

These modules belong here:

- the types of examples: `examples`, `labels`
- formats of tables: `table_formats` lists them, `delimited`, `json_tables`, `label_studio` and `parquet` are the formats
- readers: `squad`, `multi_context`, `sentences`, and `in_memory` for data in memory
- names of datasets: `sources`, with `hub` and `split_files`; `convert` writes data in another format
- splits, the tokenizer, windows, search by BM25, and the synthetic corpus `fables`

Augmented and synthetic examples belong in `lamina.augment`, decoding and thresholds in `lamina.answers`, metrics in
`lamina.scoring`. Only `batches` and `hidden_states` import torch.
"""
