"""test_notice - the scripts of examples/notice against a metadata service that is
played here: what clouds answer, and what happens where nobody does.
"""
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import check, equal, main, scenario

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(HERE, "../../examples/notice")
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
GCP = "/computeMetadata/v1/instance/"
ACTION = "/latest/meta-data/spot/instance-action"


class Cloud:
    """answers: path -> text, or (status, text); needs: the header that each GET
    has to have."""

    def __init__(self, answers, needs):
        cloud = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def say(self, status, text=""):
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def do_PUT(self):
                seconds = self.headers.get(
                    "X-aws-ec2-metadata-token-ttl-seconds")
                if self.path == "/latest/api/token" and seconds:
                    self.say(200, "secret")
                else:
                    self.say(400)

            def do_GET(self):
                name, value = needs
                if self.headers.get(name) != value:
                    self.say(401)
                    return
                answer = cloud.answers.get(self.path, (404, ""))
                if not isinstance(answer, tuple):
                    answer = (200, answer)
                self.say(*answer)

        self.answers = answers
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def url(self):
        return "http://127.0.0.1:%d" % self.server.server_address[1]


def ask(script, url):
    """(exit status, what it printed)"""
    done = subprocess.run([os.path.join(SCRIPTS, script)],
                          env={**os.environ, "METADATA_URL": url,
                               "http_proxy": "http://127.0.0.1:1"},
                          capture_output=True, text=True, timeout=30,
                          check=False)
    equal(done.stderr, "", "words on stderr")
    return done.returncode, done.stdout


def goes(answer, low, high, why):
    status, text = answer
    left, _, rest = text.strip().partition(" ")
    equal((status, rest), (0, why), "answer")
    check(low <= int(left) <= high, text)


def have_curl(stage):
    if shutil.which("curl"):
        return True
    stage.note("skipped: no curl here")
    return False


def aws(answers):
    return Cloud(answers, ("X-aws-ec2-metadata-token", "secret"))


def gcp(answers):
    return Cloud(answers, ("Metadata-Flavor", "Google"))


def azure(*events, name="vm_1"):
    return Cloud({EVENTS: json.dumps({"DocumentIncarnation": 1,
                                      "Events": list(events)}), NAME: name},
                 ("Metadata", "true"))


def event(kind, left_s, *machines):
    when = time.strftime("%a, %d %b %Y %H:%M:%S GMT",
                         time.gmtime(time.time() + left_s)) if left_s else ""
    return {"EventId": "x", "EventType": kind, "ResourceType": "VirtualMachine",
            "Resources": list(machines), "EventStatus": "Scheduled",
            "NotBefore": when}


@scenario
def aws_says_when(stage):
    if not have_curl(stage):
        return
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 100))
    with aws({}) as cloud:
        equal(ask("aws.sh", cloud.url()), (0, ""), "no notice")
        cloud.answers[ACTION] = json.dumps({"action": "terminate",
                                            "time": when})
        goes(ask("aws.sh", cloud.url()), 80, 100, "spot instance: terminate")
        cloud.answers[ACTION] = json.dumps({"action": "stop",
                                            "time": "2017-09-18T08:22:00Z"})
        goes(ask("aws.sh", cloud.url()), 0, 0, "spot instance: stop")
        cloud.answers[ACTION] = '{"action": "stop"}'
        goes(ask("aws.sh", cloud.url()), 60, 60, "spot instance: stop")
        cloud.answers[ACTION] = (500, "")
        equal(ask("aws.sh", cloud.url()), (1, ""), "an error of the service")


@scenario
def gcp_says_when(stage):
    if not have_curl(stage):
        return
    with gcp({GCP + "preempted": "FALSE",
              GCP + "maintenance-event": "NONE"}) as cloud:
        equal(ask("gcp.sh", cloud.url()), (0, ""), "no notice")
        cloud.answers[GCP + "maintenance-event"] = "MIGRATE_ON_HOST_MAINTENANCE"
        equal(ask("gcp.sh", cloud.url()), (0, ""), "it is migrated")
        cloud.answers[GCP + "maintenance-event"] = \
            "TERMINATE_ON_HOST_MAINTENANCE"
        goes(ask("gcp.sh", cloud.url()), 3600, 3600, "host maintenance")
        cloud.answers[GCP + "preempted"] = "TRUE"
        goes(ask("gcp.sh", cloud.url()), 25, 25, "preempted")
        cloud.answers = {}
        equal(ask("gcp.sh", cloud.url()), (1, ""), "another service")


@scenario
def azure_says_when(stage):
    if not have_curl(stage):
        return
    with azure() as cloud:
        equal(ask("azure.sh", cloud.url()), (0, ""), "no notice")
    with azure(event("Preempt", 30, "vm_2", "vm_10"),
               event("Freeze", 30, "vm_1")) as cloud:
        equal(ask("azure.sh", cloud.url()), (0, ""), "others'")
    with azure(event("Freeze", 30, "vm_1"), event("Preempt", 30, "vm_2"),
               event("Terminate", 300, "vm_2", "vm_1")) as cloud:
        goes(ask("azure.sh", cloud.url()), 280, 300,
             "scheduled event: Terminate")
    with azure(event("Reboot", 0, "vm_1")) as cloud:
        goes(ask("azure.sh", cloud.url()), 0, 0, "scheduled event: Reboot")


@scenario
def nobody_answers(stage):
    if not have_curl(stage):
        return
    for script in ("aws.sh", "gcp.sh", "azure.sh"):
        equal(ask(script, "http://127.0.0.1:1"), (1, ""), script)


if __name__ == "__main__":
    sys.exit(main())
