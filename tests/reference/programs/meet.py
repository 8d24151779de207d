"""A rank that meets the others, adds up with them, and ends. Prints JSON."""

import json
import os
import sys

import torch
import torch.distributed as dist

from conformance.reference import shutdown, start

given = os.environ["MASTER_ADDR"]
met = start().topology
value = torch.ones(1)
dist.all_reduce(value)
during = os.environ["MASTER_ADDR"]
shutdown()
after = os.environ["MASTER_ADDR"]
sys.stdout.write(
    "RESULTS " + json.dumps({"sum": value.item(), "addresses": [given, met.master_addr, during, after]}) + "\n"
)
