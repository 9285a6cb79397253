"""Kernel families: which variants of each exist, when each is allowed, which is best here."""
