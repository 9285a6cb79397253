"""The window, its rail and pages, the engine's process, and how the application starts."""
