"""UCX's UCP library: ``libucp.so.0``, by which programs that are linked against UCX reach Amoeba's NICs unchanged.

``library`` declares its 114 functions, on ``layouts`` (structures), with the C in ``libucp.c``;
:func:`amoeba.embed.build` builds it. ``start`` combines the functions: ``contexts``, ``workers``, ``endpoints``,
``mapped`` (memory and keys), ``transfers`` (tagged messages, put and get), ``atomics``, ``messages`` (active messages
and streams), ``completions`` (requests). Each translates numbers and pointers of C, and calls :mod:`amoeba.ucp`.
"""
