# The image of every role: coordinator, worker, parameter server, evaluator and TensorBoard.
#
#   docker build --tag ps-dqn .
#
# BASE is a Debian with Python 3.11 as `python3`, the version that the lock is made for. A tag moves
# whenever it is rebuilt, so pin what you deploy by its digest:
#
#   docker buildx imagetools inspect python:3.11-slim-bookworm
#   docker build --build-arg BASE=python:3.11-slim-bookworm@sha256:… --tag ps-dqn .
#
# Settings of pip, such as an index of yours, go in as a secret, of which no layer keeps anything:
#
#   docker build --secret id=pip.conf,src="$HOME/.config/pip/pip.conf" --tag ps-dqn .
#
# REQUIREMENTS is the lock of what is in it; for workers with a GPU, with NVIDIA's libraries:
#
#   docker build --build-arg REQUIREMENTS=k8s/image/gpu/requirements.txt --tag ps-dqn:0.2.0-gpu .
#
# Where there is no Docker: k8s/image/build-with-buildah.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS builder
ARG REQUIREMENTS=k8s/image/requirements.txt
# pip stays outside of the environment that is shipped.
RUN python3 -m venv /opt/pip && python3 -m venv --without-pip /opt/ps-dqn
COPY ${REQUIREMENTS} /src/requirements.txt
# The headers are for compiling operations of one's own: a fifth of TensorFlow. Bytecode is compiled
# here, since the containers cannot write it; that makes every start several times faster.
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    /opt/pip/bin/pip --python /opt/ps-dqn/bin/python install \
        --disable-pip-version-check --no-cache-dir --no-compile --no-deps \
        --require-hashes --requirement /src/requirements.txt \
    && rm -r /opt/ps-dqn/lib/python3*/site-packages/tensorflow/include \
    && /opt/ps-dqn/bin/python -m compileall -q -j 0 \
        --invalidation-mode unchecked-hash /opt/ps-dqn/lib

WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY cluster ./cluster
COPY flags ./flags
COPY k8s ./k8s
COPY ps_dqn ./ps_dqn
# Built with the lock's setuptools. A folder of its own makes it a layer of its own: new code does
# not mean that every node pulls TensorFlow again.
RUN /opt/pip/bin/pip --python /opt/ps-dqn/bin/python install \
        --disable-pip-version-check --no-build-isolation --no-cache-dir --no-compile --no-deps \
        --no-index --prefix=/project . \
    && /opt/ps-dqn/bin/python -m compileall -q --invalidation-mode unchecked-hash \
        -s /project -p /opt/ps-dqn /project/lib

FROM ${BASE}
COPY --from=builder /opt/ps-dqn /opt/ps-dqn
COPY --from=builder /project /opt/ps-dqn
# The root file system may be read-only: what libraries cache goes to /tmp.
ENV PATH=/opt/ps-dqn/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
EXPOSE 2222 8080
USER 10001:10001
ENTRYPOINT ["python", "-m"]
CMD ["ps_dqn.coordinator", "--help"]
# Last: a new revision makes no other layer new.
ARG BASE
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="ps-dqn" \
      org.opencontainers.image.description="A deep Q-network trainer on TensorFlow's parameter-server strategy" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE}"
