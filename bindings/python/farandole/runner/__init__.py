"""Modules for tools around the launcher. Importing this package loads no framework and no native library."""
