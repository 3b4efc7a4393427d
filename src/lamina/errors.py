"""The one exception that means "you can mend this": a single clear line, exit code 2, no traceback."""


class LaminaError(Exception):
    """A mistake in a file, a recipe or a command. Its text says where, what is wrong and how to mend it."""


class LaminaWarning(UserWarning):
    """Something that works but is probably not what was meant; commands print it as one line."""
