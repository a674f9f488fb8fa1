"""`measure.explain=true`, and `make why`: where does a step's time go, and why is a backend faster?"""

from bench.study import Study

STUDY = Study(
    answers="Where does a step's time go, and why is a backend faster?",
    command="make why",
    is_wanted=lambda config: config.measure.explain and config.measure.launches > 0,
    adds="says where the time goes",
    figure="breakdown",
)
