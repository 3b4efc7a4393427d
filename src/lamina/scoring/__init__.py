"""Metrics: the official scores of SQuAD and KorQuAD, those of BERTVision and of sentences, and the significance of differences.

All functions take texts or arrays and return numbers, without torch. `predictions` fits the threshold for "no answer".
`answers` turns outputs into answers.
"""
