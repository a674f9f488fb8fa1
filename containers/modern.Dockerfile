# Today's stack on GPUs: the newest torch with the CUDA that it brings itself.
#
#   docker build -f containers/modern.Dockerfile -t training-bench:modern .
#   docker run --gpus all --ipc=host -v "$PWD/results:/bench/results" -v "$PWD/reports:/bench/reports" \
#       training-bench:modern make bench STACK=modern MODEL=bert-large GPUS=8
#
# It has not been built yet: docs/gpu.md, "Installation", says what was checked.
FROM python:3.12-bookworm

WORKDIR /bench
COPY Makefile pyproject.toml ./
COPY requirements requirements
COPY bench/__init__.py bench/
COPY bench/setup bench/setup
ENV PIP_NO_CACHE_DIR=1
RUN make setup STACK=modern PYTHON=python3.12 SETUP_ARGS="--device cuda"

COPY . .
CMD ["make", "doctor", "STACK=modern"]
