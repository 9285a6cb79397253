"""The Settings page: choices, what uses the network, and help."""
