#include "buffers.hpp"

constexpr auto kInput = tt::CBIndex::c_0;
constexpr auto kOutput = tt::CBIndex::c_2;

static void add_pair(Program& program, const CoreRangeSet& cores, uint32_t tiles) {
    make_buffer(program, cores, kInput, tt::DataFormat::Bfp8_b, tiles);
    make_buffer(program, cores, kOutput, tt::DataFormat::Float16_b, tiles);
}

Program create(const CoreRangeSet& all_cores, const Tensor& weights) {
    Program program{};
    add_pair(program, all_cores, 8);
    create_cb(tt::CBIndex::c_4, program, all_cores, 1088, 3, tt::DataFormat::Bfp8_b);
    create_cb(tt::CBIndex::c_5, program, all_cores, 2048, 16, tt::DataFormat::Float16_b, weights.buffer());
    return program;
}
