# The service of `lamina serve`, with the reader in the package. docs/serve.md shows how to build and run it.
FROM python:3.13-slim AS build

COPY . /src
RUN python -m venv /opt/lamina && /opt/lamina/bin/pip install --no-cache-dir -c /src/constraints.txt '/src[serve]'

FROM python:3.13-slim

COPY --from=build /opt/lamina /opt/lamina
RUN install -d -o 10001 -g 10001 -m 700 /data

ENV PATH=/opt/lamina/bin:$PATH HOME=/data
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000

HEALTHCHECK --start-period=30s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=3)"]

# Without a key in $LAMINA_SERVE_KEYS it refuses to start.
ENTRYPOINT ["lamina", "serve", "--host", "0.0.0.0", "--port", "8000", "--project", "/data/project"]
