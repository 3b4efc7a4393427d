"""Lamina: fine-tunes BERT-family encoders for extractive question answering, and says what it cost."""

__version__ = "0.1.0"
