"""The Models page: what is installed, what can be had, what is on its way."""
