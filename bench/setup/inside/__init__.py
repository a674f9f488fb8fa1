"""Programs that an environment's own Python runs during its set-up, with the frameworks in it."""
