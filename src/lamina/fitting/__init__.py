"""`lamina fit`: adapt a model to a few of your own questions or sentences, and keep the start if training does not help.

`fit` is the whole path. `choice` decides what to train, `parts` what is held out, `starts` which model training begins with,
`comparison` whether the result is better.
"""
