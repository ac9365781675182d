# One image for app, workers and API. Build: docker build -t second-look .
FROM python:3.11-slim@sha256:db3ff2e1800a8581e2c48a27c3995339d47bdf046da21c7627accd3d51053a93
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /app
# compose.yaml's proxy
RUN apt-get update && apt-get install -y --no-install-recommends socat && rm -rf /var/lib/apt/lists/*
COPY requirements.txt .
RUN python -m pip install --no-cache-dir --require-hashes -r requirements.txt
COPY . .
RUN python -m pip install --no-cache-dir --no-deps --no-build-isolation -e pages/browser
# The root of the file system is read-only when it runs: what is compiled is compiled now, what is written goes to var.
RUN python -m compileall -q . && useradd --system --home /app second-look && mkdir -p var && chown second-look var
USER second-look
EXPOSE 8501
CMD ["python", "app.py", "--port", "8501"]
