"""Model files: which can be had, which are here, what they need, how they get here."""
