"""Programs of others, which know nothing of Amoeba: how they are had, built, and run."""
