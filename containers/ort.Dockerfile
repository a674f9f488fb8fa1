# The pinned stack on GPUs: torch 2.6.0 and ONNX Runtime Training 1.19.2, both for CUDA 11.8.
#
#   docker build -f containers/ort.Dockerfile -t training-bench:ort .
#   docker run --gpus all --ipc=host -v "$PWD/results:/bench/results" -v "$PWD/reports:/bench/reports" \
#       training-bench:ort make bench MODEL=bert-large GPUS=8
#
# It has not been built yet: docs/gpu.md, "Installation", says what was checked.
#
# onnxruntime-training 1.19.2 links against CUDA 11.8 and cuDNN 8, and g++ and nvcc compile its extensions of
# torch, so this is the `devel` image. torch brings a cuDNN 9 of its own beside.
FROM nvidia/cuda:11.8.0-cudnn8-devel-ubuntu22.04

# Ubuntu keeps no older versions of its packages, so that pinning them would break the recipe with the next one.
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        g++ git make python3.10 python3.10-dev python3.10-venv \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /bench
COPY Makefile pyproject.toml ./
COPY requirements requirements
COPY bench/__init__.py bench/
COPY bench/setup bench/setup

# torch's own index has its builds for CUDA 11.8, which are newer to pip than those without a local version.
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cu118
# No GPU is there while an image is built: which ones the extensions' kernels are for must be said. From Volta
# to Hopper; anything newer compiles the last at its first use.
ENV ONNXRUNTIME_FORCE_CUDA=1 TORCH_CUDA_ARCH_LIST="7.0 7.5 8.0 8.6 9.0+PTX"
ENV PIP_NO_CACHE_DIR=1
RUN make setup PYTHON=python3.10 SETUP_ARGS="--device cuda"

COPY . .
CMD ["make", "doctor"]
