"""`make scale`: what a step would take on 1 to 1,024 ranks, from measured parts, and how far that can be
trusted."""
