"""UCX's functions, by the groups of ucp.h: they check their arguments, and call the objects.

Every function raises INVALID_PARAM for an argument that it cannot take, such as a closed handle; then nothing was
done. A function on an endpoint that has failed raises the endpoint's failure.
"""
