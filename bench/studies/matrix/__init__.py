"""`make matrix`: which backend trains which model, and why the others do not."""

from bench.study import Study

STUDY = Study(answers="Which backend trains which model, and why does another not?", command="make matrix")
