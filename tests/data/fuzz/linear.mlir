#dram = #ttnn.buffer_type<dram>
#l1 = #ttnn.buffer_type<l1>
#loc = loc(unknown)
#system_memory = #ttnn.buffer_type<system_memory>
#host = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<128x256xbf16, #system_memory>>
#plain = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<128x256xbf16, #dram>, <interleaved>>
#weight = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<4x8x!ttcore.tile<32x32, bf16>, #dram>, <interleaved>>
#given = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, bf16>, #dram>, <interleaved>>
#made = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x8x!ttcore.tile<32x32, bf16>, #dram>, <interleaved>>
#cut = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <2x1>, memref<1x8x!ttcore.tile<32x32, bf16>, #l1>, <height_sharded>, core_ranges = <[#ttnn.core_range<(0,0), (1,0)>]>>
module @SyncTensorsGraph.7 attributes {ttcore.meshes = #ttcore.meshes<[<"mesh" = 1x1>]>} {
  ttcore.device_module {
    builtin.module @SyncTensorsGraph.7 {
      func.func private @main_const_eval_0(%arg0: tensor<128x256xbf16, #host> loc(unknown)) -> tensor<128x256xbf16, #weight> attributes {tt.function_type = "const_eval"} {
        %0 = "ttnn.get_device"() <{mesh_shape = #ttnn<mesh_shape 1x1>}> : () -> !ttnn.device loc(#loc)
        %1 = "ttnn.to_device"(%arg0, %0) : (tensor<128x256xbf16, #host>, !ttnn.device) -> tensor<128x256xbf16, #plain> loc(#loc)
        %2 = "ttnn.to_layout"(%1) <{layout = #ttnn.layout<tile>}> : (tensor<128x256xbf16, #plain>) -> tensor<128x256xbf16, #weight> loc(#loc)
        "ttnn.deallocate"(%1) <{force = false}> : (tensor<128x256xbf16, #plain>) -> () loc(#loc)
        return %2 : tensor<128x256xbf16, #weight> loc(#loc)
      } loc(#loc)
      func.func @main(%arg0: tensor<64x128xbf16, #given> {ttcore.argument_type = #ttcore.argument_type<input>, ttir.name = "args_0"} loc("p0.1"), %arg1: tensor<128x256xbf16, #host> {ttcore.argument_type = #ttcore.argument_type<parameter>, ttir.name = "layer.weight"} loc("p1.2")) -> (tensor<64x256xbf16, #cut> {ttcore.shard_status = #ttcore.shard_status<unsharded>}) {
        %0 = ttcore.load_cached(@main_const_eval_0, [%arg1]) : (tensor<128x256xbf16, #host>) -> tensor<128x256xbf16, #weight> loc(#loc)
        "ttnn.deallocate"(%arg1) <{force = false}> : (tensor<128x256xbf16, #host>) -> () loc(#loc)
        %1 = "ttnn.matmul"(%arg0, %0) <{transpose_b = false}> : (tensor<64x128xbf16, #given>, tensor<128x256xbf16, #weight>) -> tensor<64x256xbf16, #made> loc(#loc1)
        "ttnn.deallocate"(%arg0) <{force = false}> : (tensor<64x128xbf16, #given>) -> () loc(#loc)
        "ttnn.deallocate"(%0) <{force = false}> : (tensor<128x256xbf16, #weight>) -> () loc(#loc)
        %2 = "ttnn.to_memory_config"(%1) : (tensor<64x256xbf16, #made>) -> tensor<64x256xbf16, #cut> loc(#loc2)
        "ttnn.deallocate"(%1) <{force = false}> : (tensor<64x256xbf16, #made>) -> () loc(#loc)
        return %2 : tensor<64x256xbf16, #cut> loc(#loc)
      } loc(#loc)
    } loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc1 = loc("dot.3")
#loc2 = loc("dot.3_workaround"(#loc1))
