"""What a comparison is: the typed configuration, how a command line becomes one, its files' names."""
