"""Making the environments of a checkout: what is installed and compiled. Needs the standard library alone."""
