"""Searching for the settings of a recipe that score best on its held-out part. The dev set is never read."""
