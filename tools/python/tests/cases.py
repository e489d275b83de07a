"""The expected files of tests/data/cases."""

import json
import os
import pathlib
import sys

FOLDER = pathlib.Path(os.environ.get("MX_TEST_CASES") or
                      pathlib.Path(__file__).resolve().parents[3] / "tests/data/cases")

# How a second interpreter is started: this one may run under a loader of its own.
PYTHON = os.environ.get("MX_TEST_PYTHON", sys.executable).split()

OCP_FORMATS = {"e2m1": "mxfp4", "e2m3": "mxfp6e2m3", "e3m2": "mxfp6e3m2", "e4m3": "mxfp8e4m3",
               "e5m2": "mxfp8e5m2", "int8": "mxint8"}
DTYPES = {"f32": "float32", "bf16": "bfloat16"}


def read(name):
    return (FOLDER / name).read_bytes()


def packed_sets():
    return json.loads(read("index.json"))


def ocp_sets():
    return json.loads(read("ocp.json"))
