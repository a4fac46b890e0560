"""UCX for Python programs under ucxx's names, for :mod:`amoeba.ucx`."""
