"""The steps of `lamina analyze`: open what runs saved, analyse each kind of task, compare runs, print and draw.

`experiments.analyze` puts them together. `results` has the types that the steps exchange.
"""
