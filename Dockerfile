# docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v0.1.0 -t mirrorset-guard:v0.1.0 .
#
# The builder runs on the machine's own platform and compiles for the target's, so
# that nothing is emulated.
FROM --platform=$BUILDPLATFORM docker.io/library/golang:1.26 AS build
WORKDIR /src
# The modules first: they change less often than the code.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=devel
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /mirrorset-guard ./cmd/mirrorset-guard

FROM scratch
# Public registries are verified against these; a cluster's own CAs come from it.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /mirrorset-guard /mirrorset-guard
# By number, without which runAsNonRoot cannot be verified.
USER 65532:65532
ENTRYPOINT ["/mirrorset-guard"]
