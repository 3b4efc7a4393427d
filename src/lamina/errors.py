"""The exception for mistakes that the user can fix, and the warning for likely mistakes."""


class LaminaError(Exception):
    """A mistake in a file, a recipe, a command or an argument, which the user can fix.

    Commands print the message as one line, without a traceback, and exit with code 2.

    The message has the form `WHERE: what is wrong. Fix: what to do.` WHERE is a file, an option (`--contexts`), a recipe
    field (`train.lr`) or an argument. `Fix: ` occurs once, in the last sentence. An error that adds a prefix to another
    error keeps the fix of that error. For example:
    `train.csv, line 12: the answer '1999' is not in the context. Fix: run lamina data clean train.csv`.

    Args:
        message: The whole message; `str(error)` returns it.
    """


class LaminaWarning(UserWarning):
    """A warning about input that works but is probably a mistake.

    Commands print it as one line on standard error and go on.

    Args:
        message: The whole message; it starts with the file, option, recipe field or argument.
    """
