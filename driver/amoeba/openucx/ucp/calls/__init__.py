"""UCX's functions, by the groups of ucp.h: they check what they are given, and call the objects."""
