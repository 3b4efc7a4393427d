"""Helpers for every room: files, locks, paths, progress, plots, processes, array types, and the layout of a run folder.

A module belongs here if it does not depend on models, tasks or recipes. Only `parallel` imports torch.
"""
