"""What studies ask ranks for is answered by a function of the study."""

from importlib import import_module
from typing import Any, get_args, get_type_hints

import pytest

from bench.launch.messages import Request
from bench.study import load_parts
from bench.worker.rank.rank import Rank

load_parts("messages")
OF_STUDIES = [one for one in Request.__subclasses__() if one.answered_by]


@pytest.mark.parametrize("request_class", OF_STUDIES, ids=lambda each: each.__name__)
def test_a_function_takes_its_fields_and_returns_its_answer(request_class: type[Request[Any]]) -> None:
    function = getattr(import_module(request_class.answered_by), str(request_class.__struct_config__.tag))
    fields = get_type_hints(request_class)
    (answer,) = get_args(request_class.__orig_bases__[0])  # type: ignore[attr-defined]
    takes = get_type_hints(function)
    assert issubclass(Rank, takes.pop("rank"))
    assert takes == {name: fields[name] for name in request_class.__struct_fields__} | {"return": answer}
