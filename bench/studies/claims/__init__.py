"""`make claims`: what others published, judged by our rows."""

from bench.study import Study

STUDY = Study(answers="Which published claims hold here?", command="make claims")
