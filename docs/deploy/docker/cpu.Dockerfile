# Farandole with PyTorch for CPUs. Run from the root of the tree:
#   docker build -f docs/deploy/docker/cpu.Dockerfile -t farandole .
# The first stage runs tools/setup, as on any other machine. The second one takes the wheel and the libraries that it needs.
ARG DEBIAN=12

FROM debian:${DEBIAN} AS build
COPY . /src/farandole
WORKDIR /src/farandole
RUN tools/setup

FROM debian:${DEBIAN}-slim
# What pip installs beside Farandole: one of its extras, in the version of the lock file where there is one.
ARG FRAMEWORK=torch
ARG FRAMEWORK_INDEX=https://download.pytorch.org/whl/cpu
RUN apt-get update -qq && \
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      python3 python3-venv \
      libcaf-core0.17 libcaf-io0.17 libcapnp-0.9.2 libspdlog1.10 libssl3 libucx0 libyaml-cpp0.7 \
      libgloo0 openmpi-bin \
      iproute2 openssl && \
    rm -rf /var/lib/apt/lists/*
COPY --from=build /src/farandole/.setup/wheel /tmp/wheel
COPY tools/locks/torch-lean.txt /tmp/locked.txt
RUN python3 -m venv /opt/farandole && \
    grep -E '^(torch|numpy|cloudpickle)==' /tmp/locked.txt >/tmp/constraints.txt && \
    /opt/farandole/bin/pip install --no-cache-dir --extra-index-url "$FRAMEWORK_INDEX" \
      -c /tmp/constraints.txt "farandole[$FRAMEWORK] @ file://$(ls /tmp/wheel/farandole-*.whl)" && \
    rm -r /tmp/wheel /tmp/locked.txt /tmp/constraints.txt
ENV PATH=/opt/farandole/bin:$PATH PYTHONUNBUFFERED=1
# The user of the manifests for Kubernetes.
RUN useradd --uid 1000 --create-home worker && mkdir /workspace && chown worker:worker /workspace
USER worker
WORKDIR /workspace
CMD ["farandole", "check"]
