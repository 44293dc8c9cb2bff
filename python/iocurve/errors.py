"""The names of ``iocurve.foundation.errors`` for modules that still import them from here."""

from iocurve.foundation.errors import *  # noqa: F403
