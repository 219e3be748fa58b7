#!/usr/bin/env python3
"""Blobs in an S3-compatible service: moto's server, which checks signatures here, from a private environment that
`./dev test s3` installs. The contract tests of depots (tests/unit/proto/depot) run against it."""
import json
import os
import pathlib
import subprocess
import sys
import urllib.request

import harness
import wire
from harness import Skip, until

ENVIRONMENT = pathlib.Path(__file__).parents[2] / "build" / "s3"
SIGNED_FROM = 4  # requests before signatures count: bucket, user, policy and key are made by them
MAKE_USER = """
import boto3, json, sys
where = dict(endpoint_url=sys.argv[1], region_name="us-east-1", aws_access_key_id="nobody", aws_secret_access_key="nothing")
boto3.client("s3", **where).create_bucket(Bucket="kiln")
iam = boto3.client("iam", **where)
iam.create_user(UserName="tracker")
iam.put_user_policy(UserName="tracker", PolicyName="all", PolicyDocument=json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}))
print(json.dumps(iam.create_access_key(UserName="tracker")["AccessKey"], default=str))
"""


def service(world):
    """Starts one; returns its address and the keys that it takes."""
    if not (ENVIRONMENT / "bin" / "moto_server").exists():
        raise Skip("moto's server is not installed; `./dev test s3` does it")
    world.env = {**{k: v for k, v in world.env.items() if "proxy" not in k.lower()}, "INITIAL_NO_AUTH_ACTION_COUNT": str(SIGNED_FROM)}
    child = world.start(str(ENVIRONMENT / "bin" / "moto_server"), "-H", "127.0.0.1", "-p", "0")
    log = lambda: child.log.read_text()
    until(lambda: "Running on http://127.0.0.1:" in log() or child.poll() is not None, "moto's server")
    assert child.poll() is None, log()
    address = "http://127.0.0.1:" + log().split("Running on http://127.0.0.1:")[1].split()[0]
    made = subprocess.run([ENVIRONMENT / "bin" / "python", "-c", MAKE_USER, address], env=world.env, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    key = json.loads(made.stdout)
    world.env.update(AWS_ACCESS_KEY_ID=key["AccessKeyId"], AWS_SECRET_ACCESS_KEY=key["SecretAccessKey"], AWS_REGION="us-east-1")
    return address


def contract(world, where):
    return subprocess.run([os.environ["KILN_TEST_DEPOT_PROGRAM"]], env={**world.env, "KILN_TEST_DEPOT": where}, capture_output=True,
                          text=True, timeout=harness.DEADLINE_S)


def test_a_bucket_passes_the_contract_of_depots(world):
    address = service(world)
    for where in (f"s3:{address}/kiln", f"s3:{address}/kiln/lab/blobs"):
        done = contract(world, where)
        assert done.returncode == 0 and done.stdout.count("\nok ") == 4, done.stdout + done.stderr
    wrong = world.env["AWS_SECRET_ACCESS_KEY"]
    world.env["AWS_SECRET_ACCESS_KEY"] = wrong[::-1]
    done = contract(world, f"s3:{address}/kiln")
    assert done.returncode != 0 and "PERMISSION_DENIED" in done.stdout + done.stderr, done.stdout + done.stderr


def blob_survives(world, where):
    """A tracker takes a blob; the next one, on another machine as it were, has it."""
    content = b"model" * 100000
    tracker, address = world.tracker("--blobs", where, "--state", world.path("one"))
    peer = wire.Peer(address)
    assert peer.hello("admin", "ann", wire.token_of(world))[0] == "WELCOME"
    assert peer.put_blob(content, 1)[0] == "BLOB_OK"
    world.kill(tracker)
    _, address = world.tracker("--blobs", where, "--state", world.path("two"))
    peer = wire.Peer(address)
    assert peer.hello("admin", "ann", wire.token_of(world))[0] == "WELCOME"
    name, values = peer.ask("BLOB_GET", "BLOB_PUT", 1, **{"digest": wire.blob_ref(content)["digest"]})
    assert name == "BLOB_PUT" and values["blob"]["size"] == len(content), (name, values)
    got = b""
    while len(got) < len(content):
        got += peer.expect("DATA")
    assert got == content


def test_the_next_tracker_has_the_blobs_of_a_shared_folder(world):
    blob_survives(world, f"folder:{world.path('shared')}")
    world.refused("--blobs", "s3:nowhere", "--listen", "127.0.0.1:0", "--state", world.path("three"), says="s3:https://", name="kiln-tracker")


def test_the_next_tracker_has_the_blobs_of_a_bucket(world):
    blob_survives(world, f"s3:{service(world)}/kiln")


def test_a_missing_service_is_an_error(world):
    world.env.update(AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b")
    done = contract(world, "s3:http://127.0.0.1:1/kiln")
    assert done.returncode != 0 and "UNAVAILABLE" in done.stdout + done.stderr, done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
