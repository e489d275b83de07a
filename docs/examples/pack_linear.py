#!/usr/bin/env python3
"""Packs the weights of a model's linear layers to MX9 or MX6; each is unpacked when it is used.

    from pack_linear import pack_linear_layers
    before, after = pack_linear_layers(model, "mx9")

Any torch model, on whatever device its weights are; it also stays usable under torch.compile. Run as a
program, this trains a small model on its own source, one character after the other, and prints the loss
before and after:

    MXRT_LIBRARY=/path/to/libmxrt.so.0 PYTHONPATH=tools/python python3 docs/examples/pack_linear.py
"""

import sys

import mxrt
import torch
from torch import nn
from torch.nn import functional


class PackedLinear(nn.Module):
    """A linear layer whose weight is packed bytes, for inference: the weight has no gradient."""

    def __init__(self, linear, format):
        super().__init__()
        weight = linear.weight.detach()
        self.format, self.shape, self.dtype = format, tuple(weight.shape), weight.dtype
        # Packed from and unpacked to f32 where the model's own type is not one that MX9 is made of.
        direct = self.dtype in (torch.float32, torch.bfloat16)
        self.unpacked_dtype = self.dtype if direct else torch.float32
        packed = mxrt.convert_to_mx(weight.to(self.unpacked_dtype), format)
        self.register_buffer("packed", packed)
        self.bias = linear.bias

    @property
    def weight(self):
        """Unpacked, for modules that read their children's weights, too."""
        weight = mxrt.convert_from_mx(self.packed, self.format, self.unpacked_dtype, self.shape)
        return weight.to(self.dtype)

    def forward(self, x):
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self):
        return f"{self.shape[1]}, {self.shape[0]}, {self.format}"


def pack_linear_layers(model, format, skip=()):
    """Replaces every nn.Linear below `model`, but those named in `skip`, as model.named_modules()
    has them. Returns the bytes of these weights before and after."""
    before = after = 0
    for name, module in list(model.named_modules()):
        # Subclasses do something else with their weight.
        if type(module) is not nn.Linear or name in skip or not name:
            continue
        parent, _, own_name = name.rpartition(".")
        packed = PackedLinear(module, format)
        setattr(model.get_submodule(parent), own_name, packed)
        before += module.weight.numel() * module.weight.element_size()
        after += packed.packed.numel()
    return before, after


# ---- Shown on a small model ----

CONTEXT = 16


class Model(nn.Module):
    def __init__(self, symbols, width=128):
        super().__init__()
        self.embedding = nn.Embedding(symbols, width // CONTEXT)
        self.layers = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width),
                                    nn.GELU(), nn.Linear(width, symbols))

    def forward(self, context):
        return self.layers(self.embedding(context).flatten(1))


def trained_model(text, steps):
    """(model, contexts, next symbols), trained on all of the text."""
    torch.manual_seed(1)
    symbols = sorted(set(text))
    codes = torch.tensor([symbols.index(c) for c in text])
    contexts, targets = codes.unfold(0, CONTEXT, 1)[:-1], codes[CONTEXT:]
    model = Model(len(symbols))
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(steps):
        batch = torch.randint(len(targets), (64,))
        optimizer.zero_grad()
        functional.cross_entropy(model(contexts[batch]), targets[batch]).backward()
        optimizer.step()
    return model, contexts, targets


@torch.no_grad()
def loss_of(model, contexts, targets):
    return functional.cross_entropy(model(contexts), targets).item()


def main():
    with open(__file__, encoding="utf-8") as source:
        model, contexts, targets = trained_model(source.read(), 120)
    print(f"float32: loss {loss_of(model, contexts, targets):.4f}")
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    for format in ("mx9", "mx6"):
        packed = Model(model.embedding.num_embeddings)
        packed.load_state_dict(weights)
        before, after = pack_linear_layers(packed, format)
        print(f"{format}:     loss {loss_of(packed, contexts, targets):.4f}, linear weights "
              f"{before} -> {after} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
