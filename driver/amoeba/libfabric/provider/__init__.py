"""libfabric's provider: ``libamoeba-fi.so``, by which C programs reach Amoeba's NICs through libfabric.

``library`` declares it, on ``layouts`` (structures) and ``tables`` (libfabric's tables of functions), with the C in
``provider.c``; :func:`amoeba.embed.build` builds it. ``provider`` combines its functions: ``getinfo``,
``objects`` (opening), ``lifecycle`` (binding, control, closing), ``transfers``, ``queues``, ``addresses``.
Each translates numbers and pointers of C, and calls :mod:`amoeba.libfabric.objects`.
"""
