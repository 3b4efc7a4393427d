"""The kinds of task: one object for spans, one for answerability and one for sentences.

A `Kind` reads a task's data and cuts it into windows. It turns a model's outputs into a decision, scores and predictions.
Only `Kind.outputs` sees a model. All other methods work on its numpy outputs, so other runtimes share them. `registry` finds
the kind of a head. Code for a group of tasks (their mean score, the choice of a checkpoint) is in `training`.
"""
