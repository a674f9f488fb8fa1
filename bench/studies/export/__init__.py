"""`after=export`: do backends leave models that are equal, and equally fast, once they are exported?"""

from bench.study import Study

STUDY = Study(
    answers="Is what each backend has trained the same model, and as fast, once it is exported to ONNX?",
    is_wanted=lambda config: config.after == "export",
    is_after=True,
)
