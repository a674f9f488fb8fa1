"""Values that an export froze may matter only in later steps: do timed losses follow the reference's?"""

from bench.errors import LaunchFailed
from bench.launch.messages import FROZEN, ComputeLosses
from bench.measure.groups.running import RunningGroups
from bench.measure.plan.plans import Launch
from bench.measure.stages.judging import check_later_losses, check_series, name_losses
from bench.measure.stages.stage import Run


class LaterLosses:
    """Checks that backends train alike as long as they are timed; others are `diverged` with all blocks."""

    def __init__(self, shared: Run) -> None:
        self.shared = shared
        self._has_looked = False

    def compare(self, launch: Launch) -> None:
        """Compare the losses of all steps of a launch, where no step draws random numbers."""
        plan, timer, reference = self.shared.plan, self.shared.timer, self.shared.plan.reference
        if timer.are_random or self.shared.measure.batch == "max" or reference not in timer.losses:
            return
        for name, losses in timer.losses.items():
            backend, record = plan.backends[name], self.shared.ledger.records.get((launch.number, name))
            if (
                name != reference
                and record
                and record.status == "ok"
                and backend.update == plan.backends[reference].update
            ):
                try:
                    check_later_losses(losses, timer.losses[reference], backend.tolerances.loss)
                except LaunchFailed as failure:
                    self.shared.failures.record(name, launch, failure, log_tail="")

    def look(self, groups: RunningGroups) -> None:
        """Once, if steps are random: with dropout off, do losses at the reference's weights match its own?

        This runs at the end of a launch, since no group can train on. Only exporting engines are asked.
        """
        shared, reference = self.shared, self.shared.plan.reference
        proofs = {name: shared.ledger.templates[name].proof.get("engine", {}) for name in groups}
        exporting = [name for name, proof in proofs.items() if FROZEN in proof]
        if self._has_looked or not shared.timer.are_random or reference not in groups or not exporting:
            return
        self._has_looked = True
        names = name_losses(shared.batches, f"after {shared.label(groups.launch)}")
        weights, theirs = str(shared.output.late_weights), list[float]()
        for name in (reference, *exporting):
            request = ComputeLosses(numbers=shared.batches, weights=weights, saves=name == reference)
            with (
                shared.bar.doing("parity", f"{name} with dropout off"),
                groups.closing_if_it_fails(name, self._fail),
            ):
                losses = [loss for answer in groups[name].request(request) for loss in answer.losses]
                theirs = theirs or losses
                check_series(names, losses, theirs, shared.plan.backends[name].tolerances.loss)
                if shared.plan.interleaved and not shared.plan.on_gpus:
                    groups[name].pause()

    def _fail(self, name: str, launch: Launch, failure: LaunchFailed, log_tail: str) -> None:
        """Only a different loss counts as the backend's failure."""
        if failure.status == "diverged":
            self.shared.failures.record(name, launch, failure, log_tail)
        else:
            self.shared.bar.print_line(f"{name}: no check with dropout off after training: {failure.message}")
