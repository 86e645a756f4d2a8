// Four buffers of four tiles, whatever the workload.
#include <tt-metalium/host_api.hpp>

using namespace tt;
using namespace tt::tt_metal;

constexpr uint32_t tile_bytes = 32 * 32 * sizeof(float);
constexpr uint32_t cb0_tiles = 4;
constexpr uint32_t cb1_tiles = 4;
constexpr uint32_t cb2_tiles = 4;
constexpr uint32_t cb16_tiles = 4;

int main() {
    Program program = CreateProgram();
    constexpr CoreCoord core = {0, 0};

    auto a = CircularBufferConfig(cb0_tiles * tile_bytes, {{CBIndex::c_0, DataFormat::Float32}})
                 .set_page_size(CBIndex::c_0, tile_bytes);
    CreateCircularBuffer(program, core, a);
    CircularBufferConfig b(cb1_tiles * tile_bytes, {{CBIndex::c_1, DataFormat::Float32}});
    b.set_page_size(CBIndex::c_1, tile_bytes);
    CreateCircularBuffer(program, core, b);
    CreateCircularBuffer(
        program,
        core,
        CircularBufferConfig(cb2_tiles * tile_bytes, {{CBIndex::c_2, DataFormat::Float32}})
            .set_page_size(CBIndex::c_2, tile_bytes));
    CircularBufferConfig out{cb16_tiles * tile_bytes, {{CBIndex::c_16, DataFormat::Float32}}};
    out.set_page_size(CBIndex::c_16, tile_bytes);
    CreateCircularBuffer(program, core, out);

    CreateKernel(
        program,
        "kernels/reader.cpp",
        core,
        DataMovementConfig{.processor = DataMovementProcessor::RISCV_1, .noc = NOC::RISCV_1_default});
    CreateKernel(
        program,
        "kernels/writer.cpp",
        core,
        DataMovementConfig{.processor = DataMovementProcessor::RISCV_0, .noc = NOC::RISCV_0_default});
    CreateKernel(program, "kernels/compute.cpp", core, ComputeConfig{.compile_args = {2}});
}
