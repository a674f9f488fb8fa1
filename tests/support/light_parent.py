"""`python -m tests.support.light_parent …`: `bench.worker.parent`, whose forks share memory as forks do.

The harness gives every rank its own pages before it begins (`bench.worker.mapped_pages`), a fifth of the work
of a tiny comparison. Tests of memory, of parents and of what is killed have the real one.
"""

from bench.worker import mapped_pages, parent

NAME = "tests.support.light_parent"

if __name__ == "__main__":
    mapped_pages.find = list
    parent.main()
