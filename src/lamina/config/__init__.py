"""Recipes: what to train, on what data and how.

`recipe` and `train_options` hold the options, `parse` reads files and settings, `bundled` finds the recipes that come with
Lamina. `build` turns a recipe into models, losses and optimisers. `differences` compares two recipes. `paper_rows` maps
the rows of the papers to recipes. The options of a technique are beside its maths, in its own room. `tasks` checks that a
recipe fits its kind of task.
"""
