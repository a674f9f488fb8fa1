"""The harness measured with itself: does it find what is there, and nothing else, and what does it cost?"""

from bench.study import Study

STUDY = Study(
    answers="Does the harness find what is there, and nothing else, and what does it cost?",
    command="make selftest",
)
