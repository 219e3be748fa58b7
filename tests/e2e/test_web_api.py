#!/usr/bin/env python3
"""The OpenAPI document of kiln-web, held against the server by schemathesis: thousands of requests, right and wrong ones. None crashes
the server, and each answer is as the document says."""
import json
import os
import pathlib
import re
import subprocess
import sys

import harness
from harness import Skip, until
from web_data import Server, tuned

TOOL = pathlib.Path(os.environ["KILN_BIN"]) / "web-tools/bin/schemathesis"
EXAMPLES = int(os.environ.get("KILN_WEB_EXAMPLES", "40"))  # of each operation
# Answers that only fit a fleet that no random request meets (a stream without end), or that are rightly refused.
LEFT_OUT = ["events"]
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,unsupported_method"


def test_the_server_is_as_its_document_says(world):
    if not TOOL.exists():
        raise Skip("schemathesis is not installed; `./dev test web` does it")
    tuned(world, 6)
    server = Server(world)
    world.board(server.address, key="pi-1")
    until(lambda: server.get("boards")["total"] == 1, "the board in the list")
    report = world.path("report")
    done = subprocess.run(
        [TOOL, "run", f"{server.base}/api/v1/openapi.json", "-H", f"Authorization: Bearer {server.token}", "--checks", CHECKS, "--max-examples", str(EXAMPLES),
         "--seed", "1", "--phases", "examples,coverage,fuzzing", *[word for name in LEFT_OUT for word in ("--exclude-operation-id", name)],
         "--request-timeout", "20", "--no-color", "--report", "junit", "--report-dir", report],
        env={**world.env, "PYTHONDONTWRITEBYTECODE": "1"}, cwd=world.folder, capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert done.returncode == 0, re.sub(r"(?s).*= FAILURES =+", "", said).split("= WARNINGS =")[0]
    tried = sum(map(int, re.findall(r"(\d+) generated", said)))
    assert tried >= 1000, said[-2000:]
    assert server.get("boards")["total"] == 1 and server.child.poll() is None
    log = server.child.log.read_text()
    assert "error" not in re.findall(r"^(\w+) ", log, re.M), log[-2000:]


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
