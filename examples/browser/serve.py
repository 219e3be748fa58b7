#!/usr/bin/env python3
"""Serves the page of this folder on loopback: serve.py [PORT]. KILN names the command, KILN_JS the package's folder
(default: those of the build)."""
import http.server
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build"
DIGITS = HERE.parent / "digits"
FOLDERS = {"kiln": os.environ.get("KILN_JS", BUILD / "js"), "digits": DIGITS}


class Handler(http.server.SimpleHTTPRequestHandler):
    """/kiln/ is the package, /digits/ has the test images, /digits.wasm is the module, the rest this folder."""

    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm", ".js": "text/javascript"}

    def translate_path(self, path):
        if path == "/digits.wasm":
            return self.server.module
        _, name, *rest = path.split("/", 2)
        self.directory = str(FOLDERS[name]) if rest and name in FOLDERS else str(HERE)
        return super().translate_path(f"/{rest[0]}" if rest and name in FOLDERS else path)

    def end_headers(self):
        # Pages that are isolated from others may share memory between threads.
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, *args):
        """Logs nothing but the line at the start."""


def serve(port):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.environ.get("KILN", BUILD / "cli/kiln"), "compile", DIGITS / "digits.onnx", "--target", "wasm", "-o", f"{folder}/digits.wasm"],
                       check=True, stdout=subprocess.DEVNULL)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        server.module = f"{folder}/digits.wasm"
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    try:
        serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    except KeyboardInterrupt:
        pass
