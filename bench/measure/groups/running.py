"""The groups of one launch that still run: a group that fails is closed, and the others go on."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from bench.errors import LaunchFailed
from bench.launch.agents import wait_for_imports
from bench.launch.group import Group
from bench.measure.plan.plans import Launch

StartGroup = Callable[[str, Launch], Group]  # starts the group of a backend in a launch

OnFailure = Callable[[str, Launch, LaunchFailed, str], None]
"""Handles a failure once its group is closed; gets the backend, its launch, the failure, the log's end."""


class RunningGroups(dict[str, Group]):
    """The groups of a launch by backend; the end of the `with` block closes all that still run."""

    def __init__(self, launch: Launch, start_group: StartGroup, on_failure: OnFailure) -> None:
        super().__init__()
        self.launch = launch
        self._start_group = start_group
        self._on_failure = on_failure
        self._stack = ExitStack()
        self._log_tails: dict[str, str] = {}  # of closed groups

    def __enter__(self) -> "RunningGroups":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, names: Sequence[str]) -> None:
        """Start the groups of these backends side by side and wait until their ranks have connected."""
        for name in names:
            with self.closing_if_it_fails(name):
                self.add(name, self._start_group(name, self.launch))
        for name in list(self):
            with self.closing_if_it_fails(name):
                self[name].connect()
        wait_for_imports()

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
    def closing_if_it_fails(self, name: str, on_failure: OnFailure | None = None) -> Iterator[None]:
        """Close the group of this backend if it fails here, and deal with the failure."""
        try:
            yield
        except LaunchFailed as failure:
            self.close_group(name)
            (on_failure or self._on_failure)(name, self.launch, failure, self._log_tails.get(name, ""))

    def end(self) -> None:
        """Let all ranks end by themselves."""
        for group in self.values():
            group.end()
