// MX9 blocks to f32, with a bias added on the way: y[r, c] = decode(p)[r, c] + bias[c].
//
// A block of 16 elements is 18 bytes: the exponent + 127, a demotion bit for each pair of elements, 16
// codes. An element is code * 2^max(exponent - demoted - 6, -126) (mxgen/format.h). A work item has
// four elements; a workgroup ${THREADS} times that, in order.
#global = #gpu.address_space<global>
!packed = memref<?x18xi8, #global>
!vector = memref<?xf32, #global>

gpu.module @kernels {
  gpu.func @mx9_bias(%p: !packed, %bias: !vector, %y: !vector, %columns: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %threads = arith.constant ${THREADS} : index
    %block = gpu.block_id x
    %lane = gpu.thread_id x
    %lanes = gpu.block_dim x
    %elements = memref.dim %y, %c0 : !vector
    %quads = arith.divui %elements, %c4 : index
    %first = arith.muli %block, %threads : index
    %last = arith.addi %first, %threads : index
    %end = arith.minui %last, %quads : index
    %begin = arith.addi %first, %lane : index

    scf.for %quad = %begin to %end step %lanes {
      %record = arith.divui %quad, %c4 : index
      %in_record = arith.remui %quad, %c4 : index
      %codes_before = arith.muli %in_record, %c4 : index
      %codes_at = arith.addi %codes_before, %c2 : index
      %exponent_byte = memref.load %p[%record, %c0] : !packed
      %demoted_byte = memref.load %p[%record, %c1] : !packed
      %codes = vector.load %p[%record, %codes_at] : !packed, vector<4xi8>

      // The two demotion bits of these pairs, one for each element.
      %exponent = arith.extui %exponent_byte : i8 to i32
      %demoted = arith.extui %demoted_byte : i8 to i32
      %pair = arith.muli %in_record, %c2 : index
      %pair_i32 = arith.index_cast %pair : index to i32
      %pair_vector = vector.broadcast %pair_i32 : i32 to vector<4xi32>
      %which = arith.constant dense<[0, 0, 1, 1]> : vector<4xi32>
      %bit = arith.addi %pair_vector, %which : vector<4xi32>
      %demoted_vector = vector.broadcast %demoted : i32 to vector<4xi32>
      %shifted = arith.shrui %demoted_vector, %bit : vector<4xi32>
      %ones = arith.constant dense<1> : vector<4xi32>
      %is_demoted = arith.andi %shifted, %ones : vector<4xi32>

      // The scale's bits: its exponent field is exponent + 127 - demoted - 6, and 1 at least.
      %exponents = vector.broadcast %exponent : i32 to vector<4xi32>
      %sixes = arith.constant dense<6> : vector<4xi32>
      %lowered = arith.subi %exponents, %is_demoted : vector<4xi32>
      %field = arith.subi %lowered, %sixes : vector<4xi32>
      %normal = arith.maxsi %field, %ones : vector<4xi32>
      %position = arith.constant dense<23> : vector<4xi32>
      %scale_bits = arith.shli %normal, %position : vector<4xi32>
      %scale = arith.bitcast %scale_bits : vector<4xi32> to vector<4xf32>

      %numbers = arith.sitofp %codes : vector<4xi8> to vector<4xf32>
      %values = arith.mulf %numbers, %scale : vector<4xf32>
      %element = arith.muli %quad, %c4 : index
      %column = arith.remui %element, %columns : index
      %b = vector.load %bias[%column] : !vector, vector<4xf32>
      %sum = arith.addf %values, %b : vector<4xf32>
      vector.store %sum, %y[%element] : !vector, vector<4xf32>
    }
    gpu.return
  }
}
