"""Helpers of launchers, for tools that import them. Farandole's own launcher does not need them."""
