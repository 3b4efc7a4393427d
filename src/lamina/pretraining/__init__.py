"""`lamina pretrain`: train an encoder on unlabelled texts, by masked tokens and next sentences.

`trainer` reads a `pretrain_recipe` and writes a `folder`. `texts` and `corpus` read the texts, and `vocabulary` makes a new
vocabulary. `sequences` and `masking` make the inputs, `model` has the heads, and `setup` builds all of these. `loop` trains
and `held_out` scores. Training on labelled examples belongs in `training`; loading an encoder belongs in `encoder`.
"""
