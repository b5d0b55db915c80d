"""What tools around the launcher import. Importing it loads nothing heavy: no framework and no native library."""
