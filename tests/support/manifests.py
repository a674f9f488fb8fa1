"""The Kubernetes manifests of docs/examples, as tests look at them."""

import shlex
from dataclasses import dataclass
from typing import Any

import yaml  # type: ignore[import-untyped]

from tests.support.pages import ROOT

FILES = ("docs/examples/kubernetes.yaml", "docs/examples/kubernetes-claim.yaml")


@dataclass(frozen=True)
class Manifests:
    """All objects of both files, by their kind; there is one of each."""

    objects: dict[str, dict[str, Any]]

    @classmethod
    def read(cls) -> "Manifests":
        """As they are committed."""
        texts = [(ROOT / name).read_text(encoding="utf-8") for name in FILES]
        found = [one for text in texts for one in yaml.safe_load_all(text)]
        objects = {one["kind"]: one for one in found}
        assert len(objects) == len(found)
        return cls(objects)

    @property
    def job(self) -> dict[str, Any]:
        """What the Job is to be."""
        spec: dict[str, Any] = self.objects["Job"]["spec"]
        return spec

    @property
    def pod(self) -> dict[str, Any]:
        """What each of its pods is to be."""
        spec: dict[str, Any] = self.job["template"]["spec"]
        return spec

    @property
    def container(self) -> dict[str, Any]:
        """The only one in each pod."""
        (container,) = self.pod["containers"]
        assert isinstance(container, dict)
        return container

    @property
    def command(self) -> list[str]:
        """What a container runs: a shell and its words."""
        return [*self.container["command"], *self.container["args"]]

    @property
    def overrides(self) -> list[str]:
        """Those of the comparison, out of pod 0's `make bench`."""
        return words_given(self._made("bench"))

    @property
    def coordinator(self) -> str:
        """HOST:PORT at which the other pods report, out of their `make node`."""
        (given,) = [word for word in self._made("node") if word.startswith("COORDINATOR=")]
        return given.partition("=")[2]

    def _made(self, target: str) -> list[str]:
        """The words of the one `make` with this target in the script."""
        lines = self.command[-1].replace("\\\n", " ").splitlines()
        (line,) = [line for line in lines if f" make {target} " in line]
        return shlex.split(line)


def words_given(made: list[str]) -> list[str]:
    """The Hydra overrides that words of `make` come to: MODEL= and those in ARGS=."""
    given = dict(word.partition("=")[::2] for word in made if "=" in word)
    return [f"model={given['MODEL']}", *given["ARGS"].split()]
