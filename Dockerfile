# docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v0.1.0 -t mirrorset-guard:v0.1.0 .
#
# The builder runs on the machine's own platform and compiles for the target's, so
# that nothing is emulated. `make image` makes the same without an engine, and a test
# compares them.
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
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o /mirrorset-guard ./cmd/mirrorset-guard

FROM scratch
ARG VERSION=devel
LABEL name="mirrorset-guard" \
      vendor="The mirrorset-guard authors" \
      maintainer="The mirrorset-guard authors" \
      version="$VERSION" \
      release="1" \
      summary="Refuses changes of OpenShift mirror sets that would break image pulls" \
      description="A validating admission webhook that knows every image an OpenShift cluster may have to pull. It refuses changes of mirror sets after which one of them could not be pulled."
# Public registries are verified against these; a cluster's own CAs come from it.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY LICENSE /licenses/LICENSE
COPY --from=build /mirrorset-guard /mirrorset-guard
# By number, without which runAsNonRoot cannot be verified.
USER 65532:65532
ENTRYPOINT ["/mirrorset-guard"]
