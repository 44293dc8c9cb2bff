"""``iocurve`` and ``python -m iocurve``."""

from __future__ import annotations

import gc
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Loads and runs the command line. Until it is loaded, Ctrl-C ends the process without a stack trace."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # The modules and most of what they make stay: the collector would look through them dozens of times.
    gc.set_threshold(20_000, 50, 50)
    from iocurve.cli import main as run

    run()


if __name__ == "__main__":
    main()
