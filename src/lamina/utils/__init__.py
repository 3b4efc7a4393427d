"""What any room may need: files, locks, paths, progress, plots, processes, array types, and the layout of a run folder.

A module belongs here if it knows nothing of models, tasks or recipes. Only `parallel` imports torch.
"""
