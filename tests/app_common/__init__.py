"""Helpers for the tests of the application: the Qt application, waiting, finding, fake worker."""
