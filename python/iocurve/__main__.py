"""``python -m iocurve``."""

from iocurve.cli import main

if __name__ == "__main__":
    main()
