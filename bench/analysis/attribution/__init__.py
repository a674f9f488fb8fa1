"""A speed-up divided: among a backend's choices, or among settings that a harness leaves alone."""
