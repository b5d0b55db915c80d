# Farandole with PyTorch for NVIDIA GPUs. Run from the root of the tree:
#   docker build -f docs/deploy/docker/cuda.Dockerfile -t farandole .
# The CUDA libraries come with PyTorch from PyPI, in the versions of tools/locks. The driver comes from the host: start the
# container with `--gpus all`, which needs the NVIDIA container toolkit.
ARG DEBIAN=12

FROM debian:${DEBIAN} AS build
COPY . /src/farandole
WORKDIR /src/farandole
RUN tools/setup

FROM debian:${DEBIAN}-slim
# The lock file of tools/setup for machines without CUDA libraries of their own.
ARG LOCK=torch-wheels.txt
RUN apt-get update -qq && \
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      python3 python3-venv \
      libcaf-core0.17 libcaf-io0.17 libcapnp-0.9.2 libspdlog1.10 libssl3 libucx0 libyaml-cpp0.7 \
      libgloo0 openmpi-bin \
      iproute2 openssl \
      ibverbs-providers librdmacm1 && \
    rm -rf /var/lib/apt/lists/*
COPY --from=build /src/farandole/.setup/wheel /tmp/wheel
COPY tools/locks /tmp/locks
RUN python3 -m venv /opt/farandole && \
    /opt/farandole/bin/pip install --no-cache-dir --no-deps -r "/tmp/locks/$LOCK" && \
    /opt/farandole/bin/pip install --no-cache-dir --no-deps --no-index /tmp/wheel/farandole-*.whl && \
    rm -r /tmp/wheel /tmp/locks
ENV PATH=/opt/farandole/bin:$PATH PYTHONUNBUFFERED=1
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
# The user of the manifests for Kubernetes.
RUN useradd --uid 1000 --create-home worker && mkdir /workspace && chown worker:worker /workspace
USER worker
WORKDIR /workspace
CMD ["farandole", "check"]
