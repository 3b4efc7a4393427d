"""Fine-tuning: from a recipe to a run folder.

`plan` decides which items make up which step, and `loop` trains. `step_loop` holds what every training loop needs.
`schedules` and `pcgrad` are maths alone. `recording` and `checkpoint` write what a stopped training needs to continue.
Losses belong in `objectives`, building a model in `config`, and training without labels in `pretraining`. Work with many
runs belongs in `experiments`.
"""
