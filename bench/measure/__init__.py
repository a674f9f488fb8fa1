"""One comparison on this machine, from its configuration to its rows. Imports no torch."""
