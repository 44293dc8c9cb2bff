"""The command that prints completion scripts."""

from __future__ import annotations

from typing import Literal


def print_completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print the completion script of a shell.

    Parameters
    ----------
    shell
        In bash, source the script; in zsh, put it into a directory of fpath as _iocurve; in fish, into
        ~/.config/fish/completions/iocurve.fish.
    """
    from iocurve.cli.commands import app

    print(app.generate_completion(prog_name="iocurve", shell=shell))
    return 0
