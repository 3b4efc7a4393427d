"""The signals that ask a process to stop: Ctrl-C, `kill`, and a terminal that closes."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

STOPPING: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Windows has no SIGHUP
Handler = Callable[[int, object], object]


class Stopped(KeyboardInterrupt):
    """A signal asked the process to stop.

    Args:
        number: The number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def exit_code(stop: BaseException) -> int:
    """Return the exit code of a process that a signal stopped: 128 and the number of the signal.

    >>> exit_code(Stopped(15)), exit_code(KeyboardInterrupt())
    (143, 130)
    """
    return 128 + (stop.number if isinstance(stop, Stopped) else signal.SIGINT)


def handle_stops(handler: Handler) -> None:
    """Call the handler for each of these signals. One that the parent process ignores stays ignored, as `nohup` wants."""
    for number in STOPPING:
        if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


@contextmanager
def stops_handled(handler: Handler) -> Iterator[None]:
    """Call the handler for each of these signals within the block. Outside the main thread, nothing changes."""
    with ExitStack() as undo:
        if threading.current_thread() is threading.main_thread():  # no other thread may set a handler
            for number in STOPPING:
                undo.callback(signal.signal, number, signal.getsignal(number) or signal.SIG_DFL)
            handle_stops(handler)
        yield


def stop_at_once(number: int, _: object) -> None:
    """Raise Stopped: a handler for work that saves its state when it is interrupted."""
    leave_closed_terminal()
    raise Stopped(number)


def leave_closed_terminal() -> None:
    """Send output to nowhere if its terminal has closed. Otherwise the next line would raise an error, and lose the state."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # no stream, or none with a file
            if _is_closed_terminal(stream.fileno()):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _is_closed_terminal(file: int) -> bool:
    try:
        import termios
    except ImportError:  # only POSIX has it
        return False
    try:
        termios.tcgetattr(file)
    except termios.error as error:
        return bool(error.args[0] == errno.EIO)  # a file that is no terminal has ENOTTY
    return False
