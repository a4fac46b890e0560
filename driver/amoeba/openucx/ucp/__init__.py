"""UCX's UCP API for :mod:`amoeba.ucp`: objects, and in ``calls`` the functions under C's names.

``__all__`` of a file here lists the names that it adds to the public module; its other names are the driver's own.
"""
