"""One object for each kind of task: all that differs between spans, answerability and sentences.

A `Kind` reads a task's data, cuts it into windows, and turns a model's outputs into a decision, scores and predictions.
Only `Kind.outputs` sees a model. All other methods work on its numpy outputs, so other runtimes share them. `registry` finds
the kind of a head. What belongs to a group of tasks (their mean, the choice of a checkpoint) is in `training`.
"""
