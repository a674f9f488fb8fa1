"""`python -m bench.worker.parent COORDINATOR_PID [ARCHITECTURE]`: forks agents, which fork ranks.

Started by `bench.launch.agents` with a socket as its standard input. With an ARCHITECTURE, which may be
empty, it first imports what the ranks of every backend need, that model's module included. Its forks import
what one backend needs besides, and fork agents, too. Without ARCHITECTURE, only torchrun is imported.
"""

import sys
from importlib import import_module

from bench.launch.lifeline import die_with
from bench.worker.agent import serve


def main() -> None:
    """Serve until the coordinator ends."""
    coordinator, *architectures = sys.argv[1:]
    die_with(int(coordinator), "bench-parent")
    serve(lambda: import_for_ranks(*architectures))


def import_for_ranks(architecture: str | None = None) -> None:
    """Import what every rank that trains with torch needs: no engine, and nothing that searches for a GPU."""
    import_module("torch.distributed.run")
    if architecture is None:
        return
    import_module("bench.worker.__main__")
    import_module("bench.worker.rank.training")
    import_module("bench.worker.state.gradients")
    if architecture:
        from transformers.models.auto.configuration_auto import model_type_to_module_name

        name = model_type_to_module_name(architecture)
        import_module(f"transformers.models.{name}.modeling_{name}")


if __name__ == "__main__":
    main()
