"""Comparisons that several machines made: a table of each, and how far machines lie apart."""

from bench.study import Study

STUDY = Study(answers="How far does a speed-up differ between machines?", command="make report")
