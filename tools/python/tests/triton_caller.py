"""A program that launches a Triton kernel by its JIT, with the interface of _convert_to_mx9_kernel.

What the kernel does here is beside the point (every byte becomes 0x5a): test_gpu_triton.py runs this
with the kernel overridden. Prints the packed bytes of a ramp, as hex.
"""

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def _convert_to_mx9_kernel(x_ptr, packed_ptr, n_blocks, last, blocks_per_row, stride_in_row,
                           stride_in_col, stride_out_blk, stride_out_byte,
                           BLOCK_SIZE: tl.constexpr, BLOCKS_PER_PROG: tl.constexpr,
                           PRIME_GROUP: tl.constexpr, QUANT_BIT: tl.constexpr):
    block = tl.program_id(0) * BLOCKS_PER_PROG + tl.arange(0, BLOCKS_PER_PROG)
    byte = tl.arange(0, 32)
    where = block[:, None] * stride_out_blk + byte[None, :] * stride_out_byte
    mask = (block[:, None] < n_blocks) & (byte[None, :] < BLOCK_SIZE + PRIME_GROUP)
    tl.store(packed_ptr + where, (byte * 0 + 0x5A).to(tl.uint8)[None, :], mask=mask)


def ramp(rows, last):
    return (torch.arange(rows * last, device="cuda", dtype=torch.float32) - 100).reshape(rows, last)


def call(x, packed):
    rows, last = x.shape
    n_blocks, per_row = packed.shape[0], -(-last // 16)
    _convert_to_mx9_kernel[(-(-n_blocks // 64),)](
        x, packed, n_blocks, last, per_row, x.stride(0), x.stride(1), packed.stride(0),
        packed.stride(1), BLOCK_SIZE=16, BLOCKS_PER_PROG=64, PRIME_GROUP=2, QUANT_BIT=8)


if __name__ == "__main__":
    source = ramp(int(sys.argv[1]), int(sys.argv[2]))
    blocks = torch.empty(source.shape[0] * -(-source.shape[1] // 16), 18, dtype=torch.uint8,
                         device="cuda")
    call(source, blocks)
    print("bytes:", blocks.cpu().numpy().tobytes().hex())
