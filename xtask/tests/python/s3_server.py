# SPDX-License-Identifier: MIT OR Apache-2.0
"""An S3 store with the bucket `cache` and one user, which checks signatures.

Prints its address and the user's two keys, then serves until its standard input ends.
"""

import json
import sys

import boto3
import moto.settings
from moto.core.responses import ActionAuthenticatorMixin
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
address = f"http://{host}:{port}"
anybody = {
    "endpoint_url": address,
    "region_name": "us-east-1",
    "aws_access_key_id": "any",
    "aws_secret_access_key": "any",
}
iam = boto3.client("iam", **anybody)
iam.create_user(UserName="shard")
policy = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}
iam.put_user_policy(
    UserName="shard", PolicyName="all", PolicyDocument=json.dumps(policy)
)
key = iam.create_access_key(UserName="shard")["AccessKey"]
boto3.client("s3", **anybody).create_bucket(Bucket="cache")
# From here on nothing goes without a signature that is right.
ActionAuthenticatorMixin.request_count = 0
moto.settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
print(address, key["AccessKeyId"], key["SecretAccessKey"], flush=True)
sys.stdin.read()
