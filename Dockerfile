# The image that deploy/ and `tombolo install` run: one static binary and nothing else.
#
#   docker build -t tombolo:0.1.0 .
#
# The binary is linked with musl, so the second stage needs no C library, and holds nothing but it and the certificates of
# public authorities: no shell, no package manager. Pods run as 65532; the proxy (NET_ADMIN) and the balancer (NET_RAW) run as root without any other
# capability, because Kubernetes gives capabilities to root only.
FROM rust:1.95-alpine AS build
# ring compiles C and assembly.
RUN apk add --no-cache gcc musl-dev
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --package tombolo-cli \
    && strip -o /tombolo target/release/tombolo

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /tombolo /usr/local/bin/tombolo
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/tombolo"]
