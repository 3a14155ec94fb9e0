# The image that deploy/ and `tombolo install` run: one static binary, the certificates of public authorities, and nothing else:
# no shell, no package manager, no C library.
#
#   cargo xtask image --tag registry.example/tombolo:0.1.0
#
# builds the binary, puts it beside this file and calls docker, podman or buildah. Pods run as 65532; the proxy (NET_ADMIN) and the
# balancer (NET_RAW) run as root without any other capability, because Kubernetes gives capabilities to root only.
FROM scratch
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY tombolo /usr/local/bin/tombolo
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/tombolo"]
