"""The desktop application: windows, pages and what they keep on disk.

The application never computes: the engine lives in another process (app.shell.engine talks to it).
"""
