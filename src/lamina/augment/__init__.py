"""Training data made from training data: pure functions of examples and a seed."""
