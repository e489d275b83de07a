"""Judges softmax.mlir: mxgen compile --check runs this in a folder with the memory before and after."""
import array
import json
import math
import sys

args = json.load(open("args.json"))
x = array.array("f", open("x.in", "rb").read())
y = array.array("f", open("y.out", "rb").read())
for row in range(args["rows"]):
    begin, end = row * args["columns"], (row + 1) * args["columns"]
    top = max(x[begin:end])
    total = math.fsum(math.exp(v - top) for v in x[begin:end])
    for i in range(begin, end):
        wanted = math.exp(x[i] - top) / total
        if not abs(y[i] - wanted) <= 4e-6 * wanted:
            sys.exit(f"row {row}, column {i - begin}: {y[i]}, not {wanted}")
