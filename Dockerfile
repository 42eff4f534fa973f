# The parser is C and must not run on musl, whose thread stacks are too small for it: glibc in both stages.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/interlock ./cmd/interlock

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /var/lib/interlock --create-home --shell /usr/sbin/nologin interlock
COPY --from=build /out/interlock /usr/local/bin/interlock
USER interlock
ENV INTERLOCK_CONFIG=/etc/interlock/interlock.yaml
VOLUME /var/lib/interlock
EXPOSE 6432 8642
ENTRYPOINT ["interlock"]
CMD ["serve"]
