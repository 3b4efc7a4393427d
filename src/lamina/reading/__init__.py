"""A trained model at work: `questions` that it answers, `sentences` that it judges."""
