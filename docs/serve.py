"""Serves a run's policy over HTTP: `python docs/serve.py RUN [PORT]`."""

import http.server
import json
import sys

from ps_dqn import load

served, port = load(sys.argv[1]), int([*sys.argv, 8000][2])


class Asked(http.server.BaseHTTPRequestHandler):
    """Answers {"observation": …, "mask": …} with {"action": …}; one or a batch of them."""

    def do_POST(self) -> None:
        """An action."""
        try:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            action = served.act(question["observation"], question.get("mask"))
            status, answer = 200, {"action": action.tolist()}
        except (ValueError, TypeError, KeyError) as error:
            status, answer = 400, {"error": str(error)}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


with http.server.ThreadingHTTPServer(("localhost", port), Asked) as server:
    print(f"http://localhost:{server.server_port} acts in {served.interface.env_id}", flush=True)
    server.serve_forever()
