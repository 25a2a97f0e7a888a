# speedmatrix in an image of nothing else: docker build -t speedmatrix .
#
#   docker run -p 8090:8090 -v speedmatrix:/data speedmatrix serve --addr :8090 --data /data \
#     --url https://speed.example.org --github-client-id ID --administrator NAME
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/speedmatrix ./cmd/speedmatrix && mkdir -p /out/data /out/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/speedmatrix /usr/local/bin/speedmatrix
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build --chown=65532:65532 /out/tmp /tmp
USER 65532:65532
VOLUME /data
EXPOSE 8090
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/speedmatrix"]
CMD ["serve", "--addr", ":8090", "--url", "http://localhost:8090", "--data", "/data", "--read-only"]
