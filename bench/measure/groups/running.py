"""The groups of one launch that still run: a group that fails leaves a row, and the others go on."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from bench.errors import LaunchFailed
from bench.launch.group import Group
from bench.measure.groups.starting import GroupStarter
from bench.measure.plan.launches import Launch
from bench.measure.record.failures import Failures

Recovery = Callable[[str, Launch, LaunchFailed], bool]
"""Whether a failure of this backend in this launch was dealt with, so that it leaves no row."""


class RunningGroups(dict[str, Group]):
    """The groups of a launch by backend; all that are left are closed at the end of the `with` block.

    Args:
        launch: that they belong to.
        starter: starts them.
        failures: puts what fails on record.
        all_resident: several groups live side by side, and those that are not measured must sleep.
        recover: what may be done about a failure instead.
    """

    def __init__(
        self,
        launch: Launch,
        starter: GroupStarter,
        failures: Failures,
        *,
        all_resident: bool = True,
        recover: Recovery | None = None,
    ) -> None:
        super().__init__()
        self.launch = launch
        self._starter = starter
        self._failures = failures
        self._all_resident = all_resident
        self._recover = recover
        self._stack = ExitStack()
        self._log_tails: dict[str, str] = {}  # of closed groups

    def __enter__(self) -> "RunningGroups":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, names: Sequence[str]) -> None:
        """Start the groups of `names` side by side and wait until their ranks have connected."""
        for name in names:
            with self.recording_failure(name):
                try:
                    self.add(name, self._starter.start(name, self.launch))
                except OSError as error:  # no process, no socket or no room for the temporary folder
                    raise LaunchFailed("crashed", f"{type(error).__name__}: {error}") from error
        for name in list(self):
            with self.recording_failure(name):
                self[name].connect()

    def add(self, name: str, group: Group) -> Group:
        """Take over a group that has been started, so that it is closed whatever happens."""
        self[name] = self._stack.enter_context(group)
        return group

    def close_group(self, name: str) -> None:
        """End a group, if there is one; its log is read first, since other nodes forget it with the ranks."""
        if group := self.pop(name, None):
            self._log_tails[name] = group.log_tail()
            group.close()

    @contextmanager
    def recording_failure(self, name: str) -> Iterator[None]:
        """Turn a failure of this backend into its row, and close its group."""
        try:
            yield
        except LaunchFailed as failure:
            self.close_group(name)
            if self._recover is not None and self._recover(name, self.launch, failure):
                return
            self._failures.record(name, self.launch, failure, self._log_tails.get(name, ""))

    def pause_unless_alone(self, name: str) -> None:
        """Keep a group from taking any CPU time while another one is measured."""
        if self._all_resident:
            self[name].pause()

    def end(self) -> None:
        """Let all ranks end by themselves."""
        for group in self.values():
            group.end()
