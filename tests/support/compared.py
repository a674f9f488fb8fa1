"""What is printed about two compared files."""


def line_of(output: str, backend: str) -> str:
    """The line about a backend in what `python -m bench.compare` printed."""
    return next(words for words in output.splitlines() if f"{backend} " in words)
