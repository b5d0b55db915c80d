"""The test command of this tree; see README.md."""
