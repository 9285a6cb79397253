"""The command line: the same jobs as the window, on the same engine, for scripts and tests."""
