"""Metrics: the official scores of SQuAD and KorQuAD, those of BERTVision and of sentences, and the significance of differences.

Everything takes texts or arrays and returns numbers, without torch. `predictions` fits the threshold for "no answer". How
outputs become answers is in `answers`.
"""
