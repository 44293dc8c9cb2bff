"""The names of ``iocurve.foundation.units`` for modules that still import them from here."""

from iocurve.foundation.units import *  # noqa: F403
