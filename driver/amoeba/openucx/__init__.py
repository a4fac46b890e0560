"""UCX on the engine: ``ucp`` (public as :mod:`amoeba.ucp`), ``ucxx`` (:mod:`amoeba.ucx`) and ``libucp``, C's."""
