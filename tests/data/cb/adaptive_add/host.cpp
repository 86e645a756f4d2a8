// Depths follow the workload, with a streaming mode for large ones.
#include <algorithm>
#include <tt-metalium/host_api.hpp>

using namespace tt::tt_metal;

constexpr uint32_t tile_bytes = 4096;

void build(Program& program, const CoreRange& cores, uint32_t tiles_per_shard, uint32_t r_tiles) {
    uint32_t cb0_tiles;
    uint32_t cb1_tiles;
    if (tiles_per_shard > 16 || r_tiles > 16) {
        cb0_tiles = 2;
        cb1_tiles = 2;
    } else {
        cb0_tiles = std::min(6u, tiles_per_shard + 2);
        cb1_tiles = std::min(r_tiles, 6u);
    }
    const uint32_t out_tiles = r_tiles > 8 ? 4 : 2;

    auto make = [&](uint32_t index, uint32_t tiles) {
        CircularBufferConfig config =
            CircularBufferConfig(tiles * tile_bytes, {{index, tt::DataFormat::Float32}}).set_page_size(index, tile_bytes);
        return CreateCircularBuffer(program, cores, config);
    };
    make(tt::CBIndex::c_0, cb0_tiles);
    make(tt::CBIndex::c_1, cb1_tiles);
    make(tt::CBIndex::c_16, out_tiles);
}
