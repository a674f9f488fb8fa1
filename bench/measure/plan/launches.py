"""Which launch of a comparison is meant: what it is for, and its number."""

from dataclasses import dataclass

from bench.results.records import NOT_TIMED, LaunchStage


@dataclass(frozen=True)
class Launch:
    """One launch of a comparison."""

    stage: LaunchStage  # what it is for
    number: int = NOT_TIMED  # from 1 for a timed launch; `NOT_TIMED` otherwise
    in_fp32: bool = False  # it trains in fp32, whatever the comparison's precision
    from_checkpoint: bool = False  # it goes on from one

    def label(self, launches: int) -> str:
        """What messages to the user call it, where `launches` timed ones were asked for."""
        if self.stage is LaunchStage.PARITY:
            if self.from_checkpoint:
                return "launch from a checkpoint"
            return "parity launch in fp32" if self.in_fp32 else "parity launch"
        if self.stage is LaunchStage.SEARCH:
            return "search for the largest batch"
        return f"launch {self.number}/{max(self.number, launches)}"


PARITY = Launch(LaunchStage.PARITY)
PARITY_IN_FP32 = Launch(LaunchStage.PARITY, in_fp32=True)
FROM_CHECKPOINT = Launch(LaunchStage.PARITY, from_checkpoint=True)
SEARCH = Launch(LaunchStage.SEARCH)


def timed(number: int) -> Launch:
    """The timed launch of this number, from 1."""
    return Launch(LaunchStage.TIMED, number)
