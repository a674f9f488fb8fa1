"""Makes composing a configuration five times as fast: tests do it a thousand times.

Each time OmegaConf parses the same interpolations and the same YAML, and Hydra puts the same files together.
Overrides of values are applied anew, by Hydra itself, to a copy of what their groups come to. What of a
configuration is not as by default is looked for once: a simulated comparison asks for it whenever it starts.
"""

import copy
import pickle
from functools import cache
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from hydra._internal import config_loader_impl
from hydra._internal.defaults_list import DefaultsList, Overrides
from omegaconf import DictConfig, _utils, base, grammar_parser

from bench.config import differences
from bench.config.schema import Config
from bench.machine import hardware
from bench.setup import stacks

SHIPPED = 3
"""Places of files without a folder of the user's: Hydra's own, conf/, and the schema."""


ELSEWHERE = "/folder of a test"


def parse_once() -> None:
    """Parse and combine everything once in this process, and read YAML by libyaml."""
    remembered = cache(grammar_parser.parse)
    for module in (_utils, base):
        module.parse = remembered  # type: ignore[attr-defined]
    yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    _combine_once()
    _compare_with_defaults_once()


def _machine() -> tuple[str, ...]:
    """What the defaults of conf/config.yaml ask of the machine, which tests pretend."""
    return hardware.default_device(), stacks.own(), hardware.default_precision("cuda")


def _compare_with_defaults_once() -> None:
    """Find the differences of equal configurations once, wherever their results go.

    Not where some of their files are in a user's folder.
    """
    find, known = differences.differences, dict[tuple[str, ...], bytes]()

    def find_once(config: Config) -> dict[str, Any]:
        place = str(Path(config.results_dir).parent)
        if config.searchpath or not place.startswith("/"):
            return find(config)
        elsewhere = copy.copy(config)
        elsewhere.results_dir = config.results_dir.replace(place, ELSEWHERE)
        elsewhere.reports_dir = config.reports_dir.replace(place, ELSEWHERE)
        elsewhere.track = copy.copy(config.track)
        elsewhere.track.folder = config.track.folder.replace(place, ELSEWHERE)
        key = (repr(elsewhere), *_machine())
        if key not in known:
            known[key] = pickle.dumps(find(elsewhere))
        different: dict[str, Any] = pickle.loads(known[key])
        for name in different.keys() & {"results_dir", "reports_dir", "track.folder"}:
            different[name] = different[name].replace(ELSEWHERE, place)
        return different

    differences.differences = find_once


def _combine_once() -> None:
    """Put the files of each choice of groups together once, unless a user's folder is among their places."""
    create = config_loader_impl.create_defaults_list
    loader = config_loader_impl.ConfigLoaderImpl
    put_together = loader._compose_config_from_defaults_list
    lists: dict[Any, DefaultsList] = {}
    configs: dict[int, bytes] = {}  # by the identity of a list of defaults in `lists`, which keeps it

    def create_once(
        repo: Any, config_name: str, overrides_list: Any, prepend_hydra: bool, skip_missing: bool
    ) -> DefaultsList:
        places = [source.path for source in repo.get_sources()]
        if len(places) > SHIPPED:
            return create(repo, config_name, overrides_list, prepend_hydra, skip_missing)
        given = Overrides(repo=repo, overrides_list=overrides_list)
        values = {id(override) for override in given.config_overrides}
        groups = [override.input_line for override in overrides_list if id(override) not in values]
        key = (*places, config_name, prepend_hydra, skip_missing, *groups, *_machine())
        if key not in lists:
            lists[key] = create(repo, config_name, overrides_list, prepend_hydra, skip_missing)
        known = lists[key]
        return DefaultsList(
            defaults=known.defaults,
            config_overrides=given.config_overrides,
            defaults_tree=known.defaults_tree,
            overrides=known.overrides,
        )

    def put_together_once(self: Any, defaults: Any, repo: Any) -> DictConfig:
        if not any(defaults is one.defaults for one in lists.values()):
            return put_together(self, defaults, repo)
        if id(defaults) not in configs:
            configs[id(defaults)] = pickle.dumps(put_together(self, defaults, repo))
        combined: DictConfig = pickle.loads(configs[id(defaults)])  # five times as fast as `copy.deepcopy`
        return combined

    config_loader_impl.create_defaults_list = create_once
    loader._compose_config_from_defaults_list = put_together_once
