"""``iocurve`` and ``python -m iocurve``."""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Loads and runs the command line. Until it is loaded, Ctrl-C ends the process without a stack trace."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from iocurve.cli import main as run

    run()


if __name__ == "__main__":
    main()
