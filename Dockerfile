# The image of Berth: one static binary, nothing else. Its build is image/build.sh, which tests run;
# the image itself is not built by any.
#
#   docker build --tag berth:0.1.0 .

FROM rust:1.95 AS build
RUN apt-get update && apt-get install --yes --no-install-recommends musl-tools
WORKDIR /berth
COPY . .
RUN BERTH_MUSL=required image/build.sh /out

FROM scratch
COPY --from=build /out/berth /usr/local/bin/berth
# Where `command: [berth]` finds it.
ENV PATH=/usr/local/bin
# Nobody's: what distroless images call nonroot.
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["/usr/local/bin/berth"]
LABEL org.opencontainers.image.title="berth" \
      org.opencontainers.image.description="A scheduler for Kubernetes clusters full of GPUs" \
      org.opencontainers.image.licenses="Apache-2.0"
