# Adds ssh and an sshd to an image of Farandole, for the MPI operator and for containers that share the keys of a login:
#   docker build -f docs/deploy/docker/sshd.Dockerfile -t farandole-sshd .
ARG BASE=farandole
FROM ${BASE}
USER root
RUN apt-get update -qq && \
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openssh-client openssh-server && \
    rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* && \
    mkdir -p /run/sshd
# Each container gets host keys of its own when it starts. Logins need a key; nothing accepts a password.
CMD ["sh", "-c", "ssh-keygen -A && exec /usr/sbin/sshd -D -e -p ${SSH_PORT:-12345} -o PasswordAuthentication=no -o PermitRootLogin=prohibit-password"]
