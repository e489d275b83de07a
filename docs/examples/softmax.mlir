// Softmax of the rows of x: y[r, c] = exp(x[r, c] - max of row r) / their sum.
//
// A workgroup of ${THREADS} work items has a row. Loops step by the size of the workgroup, which is 1 on
// the host, so that the same text serves there.
#global = #gpu.address_space<global>
!matrix = memref<?x?xf32, #global>

gpu.module @kernels {
  gpu.func @softmax(%x: !matrix, %y: !matrix) kernel {
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %one = arith.constant 1.0 : f32
    %row = gpu.block_id x
    %lane = gpu.thread_id x
    %lanes = gpu.block_dim x
    %columns = memref.dim %x, %c1 : !matrix

    %lane_max = scf.for %c = %lane to %columns step %lanes iter_args(%m = %lowest) -> (f32) {
      %v = memref.load %x[%row, %c] : !matrix
      %next = arith.maximumf %m, %v : f32
      scf.yield %next : f32
    }
    %max = gpu.all_reduce maximumf %lane_max uniform {} : (f32) -> f32

    %lane_sum = scf.for %c = %lane to %columns step %lanes iter_args(%s = %zero) -> (f32) {
      %v = memref.load %x[%row, %c] : !matrix
      %d = arith.subf %v, %max : f32
      %e = math.exp %d : f32
      %next = arith.addf %s, %e : f32
      scf.yield %next : f32
    }
    %sum = gpu.all_reduce add %lane_sum uniform {} : (f32) -> f32
    %scale = arith.divf %one, %sum : f32

    scf.for %c = %lane to %columns step %lanes {
      %v = memref.load %x[%row, %c] : !matrix
      %d = arith.subf %v, %max : f32
      %e = math.exp %d : f32
      %p = arith.mulf %e, %scale : f32
      memref.store %p, %y[%row, %c] : !matrix
    }
    gpu.return
  }
}
