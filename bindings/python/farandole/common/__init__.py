"""Code that the bindings of all frameworks share. It imports no framework."""
