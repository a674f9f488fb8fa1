"""What is printed about two compared files."""


def line_of(output: str, backend: str) -> str:
    """The row of a backend in the table that `python -m bench.plugins.compare` printed."""
    return next(words for words in output.splitlines() if words.lstrip("| ").startswith(f"{backend} "))
