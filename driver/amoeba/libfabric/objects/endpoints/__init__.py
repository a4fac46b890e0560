"""Endpoints, their contexts, and connections."""
