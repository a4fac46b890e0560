"""Settings every test shares. This file's folder joins the import path: ``from strategies import operands``."""

from hypothesis import settings

# A shared or busy machine must not fail a property; slowness is what pytest's own timeout is for.
settings.register_profile("amoeba", deadline=None)
settings.load_profile("amoeba")
