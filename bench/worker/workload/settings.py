"""The transformers configuration of a model: of a preset, a folder or a hub id, and what contradicts it."""

import ast
import difflib
import inspect
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import transformers
from safetensors import SafetensorError

from bench.config import layers, sizes, user_model
from bench.config.model import Model
from bench.errors import LaunchFailed, UserError


def configuration(model: Model) -> Any:
    """The transformers configuration; refuses keys of `model.config` that the architecture does not know."""
    if model.pretrained is None:
        saved: dict[str, Any] = {}
        kind = type(transformers.AutoConfig.for_model(model.architecture))
    else:
        loaded = transformers.AutoConfig.from_pretrained(
            model.pretrained, trust_remote_code=model.trust_remote_code
        )
        kind, (saved, _) = type(loaded), loaded.get_config_dict(model.pretrained)
    given = user_model.merge(saved, model.config)
    for key, remedy in _OF_OTHER_TRAINING.items():
        if given.get(key):
            raise UserError(f"the model's configuration has {key}={str(given[key])[:40]}, {remedy}")
    settings = kind.from_dict(given)
    _refuse_unknown(kind, model.config, known=saved, made=settings)
    if model.size != sizes.PUBLISHED:
        settings = kind.from_dict(_resized(settings, given, model))
    settings.name_or_path = model.pretrained or ""
    settings.use_cache = False
    return settings


@contextmanager
def naming_what_cannot_be_read(model: Model) -> Iterator[None]:
    """Turn errors of a missing, damaged or foreign model into `UserError`s; others keep their traceback."""
    try:
        yield
    except (OSError, ValueError, SafetensorError) as error:
        where = model.pretrained
        if where is None:
            raise
        if "trust_remote_code" in str(error):
            raise LaunchFailed(
                "unsupported",
                f"model.pretrained={where} needs the Python files that come with it, which run only with "
                "model.trust_remote_code=true; read them before you set it.",
            ) from error
        if Path(where).exists():
            raise UserError(f"model.pretrained={where} (folder): {' '.join(str(error).split())}") from error
        reason = re.split(r"[,\n]", str(error).strip())[0].rstrip(".")
        raise UserError(
            f"model.pretrained={where} is no folder here, and as a hub id it cannot be read ({reason})",
            "correct it, or give a model's folder",
        ) from error


def _refuse_unknown(
    kind: Any, given: Mapping[str, Any], *, known: Mapping[str, Any], made: Any, path: str = ""
) -> None:
    """Refuse keys of what is `given` that a configuration of this kind only keeps, and no model of it reads.

    `known` is what the checkpoint's own configuration has, `path` that of the part, such as `vision_config.`.
    """
    taken = {*inspect.signature(kind.__init__).parameters, *kind.attribute_map}
    names = {*kind().to_dict(), *taken, *known}
    parts = {
        name: part for name, part in vars(made).items() if isinstance(part, transformers.PretrainedConfig)
    }
    kept = {*made.to_dict()}
    elsewhere = {
        key: f"{name}.{key}" for name, part in parts.items() for key in {*part.to_dict()} - names
    } | _copies(kind, taken)
    for key, value in given.items():
        if key in _SET_BY_OTHERS:
            raise LaunchFailed(
                "unsupported", f"model.config.{path}{key} has no effect; set {_SET_BY_OTHERS[key]}=… instead."
            )
        if isinstance(value, Mapping) and key in parts:
            part, below = parts[key], known.get(key, {})
            _refuse_unknown(type(part), value, known=below, made=part, path=f"{path}{key}.")
        elif key in elsewhere or (key not in names and key in kept and not _is_read(kind, key)):
            close = difflib.get_close_matches(key, sorted(names), n=1)
            meant = elsewhere.get(key, *close[:1])
            remedy = f"did you mean model.config.{path}{meant}?" if meant else "leave it out."
            raise LaunchFailed(
                "unsupported",
                f"model.config.{path}{key} is not a key of transformers' {kind.__name__}; {remedy}",
            )


_OF_OTHER_TRAINING = {
    "quantization_config": (quantized := "but would be trained in fp32; remove it from config.json."),
    "compression_config": quantized,
    "gradient_checkpointing": "which is set here by checkpointing=true; remove it from config.json.",
}
"""Keys of a configuration that ask for another training than the row would say, and what to do."""

_SET_BY_OTHERS = {
    **dict.fromkeys(("attn_implementation", "_attn_implementation"), "attention"),
    **dict.fromkeys(("dtype", "torch_dtype"), "precision"),
}
"""Keys of a configuration that the harness sets, and its own key for each."""


def _copies(kind: Any, taken: Collection[str]) -> dict[str, str]:
    """Attributes that a configuration sets to what it is given as another.

    `self.num_hidden_layers = encoder_layers` of BART is one: setting it changes no number of layers.
    """
    made = [node for node in ast.walk(ast.parse(inspect.getsource(kind))) if isinstance(node, ast.Assign)]
    return {
        target.attr: node.value.id
        for node in made
        for target in node.targets
        if isinstance(target, ast.Attribute) and isinstance(node.value, ast.Name)
        if target.attr not in taken and node.value.id in taken
    }


def _is_read(kind: Any, key: str) -> bool:
    """Whether an architecture's own code reads a key that its configuration does not declare.

    DeBERTa's `share_att_key` is one: `getattr(config, "share_att_key", False)`.
    """
    sources = Path(inspect.getfile(kind)).parent.glob("*.py")
    texts = [path.read_text(encoding="utf-8") for path in sources if not _OF_OTHERS.match(path.name)]
    return any(
        (isinstance(node, ast.Attribute) and node.attr == key and ast.unparse(node.value).endswith("config"))
        or (isinstance(node, ast.Constant) and node.value == key)
        for text in texts
        if key in text
        for node in ast.walk(ast.parse(text))
    )


_OF_OTHERS = re.compile(r"(modeling_(tf|flax)_|convert_|tokenization_)")
"""Begins the names of files for frameworks and formats that are not trained here, and of tokenizers."""


def _resized(settings: Any, given: dict[str, Any], model: Model) -> dict[str, Any]:
    """What to make a smaller configuration of: what is given, and what the rule changes of the defaults."""
    taken = inspect.signature(type(settings).__init__).parameters
    known = {key: getattr(settings, key) for key in taken if hasattr(settings, key)} | given
    unnamed = [key for key in layers.keys(known) if key not in given]
    if layers.parse(model.size) is not None and unnamed:
        raise UserError(
            f"model.size={model.size} needs every number of layers in model.config, which does not name "
            f"{', '.join(unnamed)}",
            "add it to the model's file",
        )
    small = sizes.resize(known, model.size)
    return {key: value for key, value in small.items() if key in given or value != known[key]}
