"""The numbers of a comparison's rows that measuring needs, too: throughput, speed-ups, their intervals."""
