"""What every framework's door shares: it knows training, and imports no framework."""
