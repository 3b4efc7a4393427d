"""Fine-tuning: from a recipe to a run folder.

`plan` decides which items each step has, and `loop` trains. `step_loop` is the part that all training loops share.
`schedules` and `pcgrad` are maths alone. `recording` and `checkpoint` write the files that a stopped run needs to continue.
Losses belong in `objectives`, building a model in `config`, and training without labels in `pretraining`. Work with many
runs belongs in `experiments`.
"""
