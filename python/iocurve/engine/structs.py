"""The names of ``iocurve.foundation.structs`` for modules that still import them from here."""

from iocurve.foundation.structs import *  # noqa: F403
