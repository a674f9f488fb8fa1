"""Turn Hydra's and OmegaConf's errors into one sentence that names the dotted key and the remedy."""

import dataclasses
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import yaml  # type: ignore[import-untyped]
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from bench.config.choices import CONF
from bench.errors import UserError

OF_A_CONFIGURATION = (
    HydraException,
    OmegaConfBaseException,
    yaml.YAMLError,
    ValueError,
    OSError,
    UserWarning,
)
"""What Hydra and OmegaConf raise; for some errors Hydra has no class of its own."""


@contextmanager
def as_user_errors() -> Iterator[None]:
    """Turn what Hydra and OmegaConf raise into UserError."""
    with warnings.catch_warnings():
        # Hydra only warns of a hydra.searchpath that does not exist.
        warnings.filterwarnings("error", message="provider=.* is not available")
        try:
            yield
        except OF_A_CONFIGURATION as error:
            for cause in _causes(error):
                if isinstance(cause, UserError):  # raised by a resolver or a dataclass
                    raise UserError(cause.reason, cause.remedy) from error
            raise UserError(explain(error)) from error
        except (AssertionError, AttributeError) as error:
            if "NoneType" not in str(error):
                raise
            raise UserError(
                "the command line sets a part of what is null here, such as model.lora of most models, or "
                "track.mlflow without track=mlflow",
                "choose it, or write the whole in a file of your own, as conf/model/llama-2-7b.yaml does",
            ) from error


def explain(error: BaseException) -> str:
    """Return what is wrong with the configuration, and the remedy."""
    for cause in _causes(error):
        if isinstance(cause, OverrideParseException):
            return (
                f"{cause.override} is not an override; write key=value, or key=[a,b] for a list, or "
                """'key="any text"' for unusual characters."""
            )
        if isinstance(cause, MissingConfigException) and "/" in (cause.missing_cfg_file or ""):
            group, _, choice = str(cause.missing_cfg_file).rpartition("/")
            known = list(cause.options or sorted(path.stem for path in (CONF / group).glob("*.yaml")))
            return f"{group}={choice} does not exist; choose from: {', '.join(known) or 'none'}."
        if isinstance(cause, OmegaConfBaseException):
            file = re.match(r"In '([^']+)':", str(error))  # of a wrong key that is not on the command line
            return (f"{file[1]}.yaml: " if file else "") + _wrong_key(cause)
    if isinstance(error, OSError) and error.filename:  # Hydra could not make its folder
        return f"{error.filename}: {error.strerror}; choose another results_dir."
    message = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, yaml.YAMLError):
        return f"A configuration file is not valid YAML: {message}; correct it there."
    if sweep := re.match("(?:Ambiguous value for argument|Sweep parameters) '([^']+)'", message):
        lists = "write key=[a,b] for a list, or 'key=\"a,b\"' for a text"
        return f"{sweep[1]} is a sweep; add --multirun, or {lists}."
    return f"{message}."


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _wrong_key(error: OmegaConfBaseException) -> str:
    key = error.full_key
    reason = str(error).splitlines()[0].rstrip(".")
    if not key:
        return f"{reason}."
    if "is not a subclass of Backend" in reason:
        name = key.removeprefix("backends.")
        return f"backends.{name} is not among the chosen backends; add {name} to backend=[…]."
    if isinstance(error, ConfigKeyError | ConfigAttributeError):
        parent = error.parent_node
        if key.startswith("backends.") and not dataclasses.is_dataclass(error.object_type):
            name, chosen = key.split(".")[1], ", ".join(map(str, parent))
            return f"{key} is not among the chosen backends ({chosen}); add {name} to backend=[…]."
        above = key.rpartition(".")[0]
        names = [*map(str, parent), *(["backend", "experiment"] if not above else [])]
        known = ", ".join(name for name in names if name != "hydra")
        return f"{key} is not a key of the configuration; {above or 'the top level'} has {known}."
    if wrong := re.match(r"Value '(.*)' of type '.*' could not be converted to (\w+)", reason):
        return f"{key} must be {_KINDS.get(wrong[2], wrong[2])}, not {wrong[1]}."
    if wrong := re.match(r"Value '(.*)' is not a valid bool", reason):
        return f"{key} must be true or false, not {wrong[1]}."
    if "missing mandatory value" in reason and key != "backends":
        return f"{key} has no value; set {key}=… or write it in the YAML file."
    if "is not Optional" in reason:
        return f"{key} must have a value, not null."
    if key == "backends":
        return "backends is made of the chosen files; choose them with backend=[…]."
    return f"{key}: {reason[0].lower()}{reason[1:]}."


_KINDS = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false"}
