"""Recipes: what to train, on what, how.

`recipe` holds the options, `parse` reads files and settings, `build` makes models, losses and optimisers of them. `bundled`
finds the recipes that come with Lamina. Whether a recipe fits its kind of task is checked in `tasks`; options of a technique
stand beside its maths, in its own room.
"""
