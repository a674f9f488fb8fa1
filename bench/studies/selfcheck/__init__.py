"""The harness, measured: does it find the differences that exist, and no others, and what does it cost?"""

from bench.study import Study

STUDY = Study(
    answers="Does the harness find the differences that exist, and no others, and what does it cost?",
    command="make selftest",
)
