"""Questions beside the one that a comparison answers: see `bench.study`."""
