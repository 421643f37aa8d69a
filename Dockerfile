# syntax=docker/dockerfile:1
# Two images, for amd64 and arm64:
#   docker build -t qwb .                   one static program and nothing else
#   docker build -t qwb:cuda --target cuda .  with a C library, so that it finds the driver of an NVIDIA GPU (docker run --gpus all)
# Use: docker run --rm -u "$(id -u):$(id -g)" -v "$PWD:/work" qwb calibrate model.onnx --data images/ --platform onnxruntime

FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS source
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION=0.1.0 REVISION=""
ENV CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH

FROM source AS dynamic
RUN go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION -X main.commit=$REVISION" -o /qwb ./cmd/qwb

FROM source AS static
RUN go build -trimpath -buildvcs=false -tags nocuda -ldflags "-s -w -X main.version=$VERSION -X main.commit=$REVISION" -o /qwb ./cmd/qwb

FROM gcr.io/distroless/base-debian12:nonroot AS cuda
COPY --from=dynamic /qwb /usr/local/bin/qwb
WORKDIR /work
ENTRYPOINT ["/usr/local/bin/qwb"]
CMD ["--help"]

FROM scratch
COPY --from=static /qwb /qwb
USER 65532:65532
WORKDIR /work
ENTRYPOINT ["/qwb"]
CMD ["--help"]
