"""`lamina pretrain`: trains an encoder on unlabelled texts, by masked tokens and next sentences.

`trainer` leads from a `pretrain_recipe` to a `folder`. `texts` and `corpus` read, `vocabulary` makes a new vocabulary.
`sequences` and `masking` make the inputs, `model` has the heads, and `setup` puts all of these together. `loop` trains and
`held_out` scores. Training on labelled examples belongs in `training`; loading a pretrained encoder belongs in `encoder`.
"""
